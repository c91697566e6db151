#include <gtest/gtest.h>

#include <set>

#include "sim/kfd/assemble.h"
#include "sim/kfd/kfd_node.h"
#include "sim/kfd/topology/caches.h"
#include "sim/kfd/topology/graph.h"
#include "tests/topology/support.h"

namespace understudy::kfd {
namespace {

constexpr const char* kNodes = "devices/virtual/kfd/kfd/topology/nodes/";
constexpr const char* kFirstGpu = "devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0/";

class GpuMachine {
 public:
  explicit GpuMachine(const std::vector<std::string>& profiles, GpuMachineRequest request = {},
                      const Settings& settings = {})
      : machine_(settings) {
    for (const std::string& name : profiles) request.gpus.push_back(load(name));
    EXPECT_EQ(add_gpus(machine_, std::move(request)), std::nullopt);
  }

  SysfsTree& sysfs() { return machine_.sysfs(); }
  Gpu& gpu(std::size_t index) {
    return *dynamic_cast<KfdNode&>(*machine_.node("kfd")).driver()->gpus().at(index);
  }
  std::string read(const std::string& path) {
    const SysfsTree::EntryRef entry = sysfs().find(path);
    if (!entry) {
      ADD_FAILURE() << "no " << path;
      return {};
    }
    return SysfsTree::read(*entry).value();
  }
  std::map<std::string, std::string> node(unsigned number, const std::string& file) {
    return lines_of(read(kNodes + std::to_string(number) + "/" + file + "properties"));
  }
  std::set<std::string> names(const std::string& path) {
    std::set<std::string> names;
    for (const auto& [name, entry] : sysfs().list(*sysfs().find(path))) names.insert(name);
    return names;
  }
  // "type weight min max engines flags" by destination.
  std::map<unsigned, std::string> links(unsigned number, const std::string& kind = "io_links") {
    std::map<unsigned, std::string> links;
    const std::string directory = kNodes + std::to_string(number) + "/" + kind;
    for (const std::string& name : names(directory)) {
      auto link = lines_of(read(directory + "/" + name + "/properties"));
      EXPECT_EQ(link["node_from"], std::to_string(number));
      links[static_cast<unsigned>(std::stoul(link["node_to"]))] =
          link["type"] + " " + link["weight"] + " " + link["min_bandwidth"] + " " + link["max_bandwidth"] +
          " " + link["recommended_sdma_engine_id_mask"] + " " + link["flags"];
    }
    EXPECT_EQ(std::to_string(links.size()), node(number, "")[kind + "_count"]);
    return links;
  }

 private:
  Machine machine_;
};

using Links = std::map<unsigned, std::string>;

TEST(Topology, OneGpuAndOneCpuNode) {
  GpuMachine machine({"gfx90a"}, {.cpu_cores = 16, .memory_bytes = 33000000000});
  EXPECT_EQ(machine.read("devices/virtual/kfd/kfd/topology/generation_id"), "2\n");
  EXPECT_EQ(machine.read("devices/virtual/kfd/kfd/topology/system_properties"),
            "platform_oem 0\nplatform_id 0\nplatform_rev 2\n");
  EXPECT_EQ(machine.names("devices/virtual/kfd/kfd/topology/nodes"), (std::set<std::string>{"0", "1"}));
  EXPECT_EQ(machine.names(std::string(kNodes) + "1"),
            (std::set<std::string>{"caches", "gpu_id", "io_links", "mem_banks", "name", "p2p_links", "perf",
                                   "properties"}));
  EXPECT_EQ(machine.read(std::string(kNodes) + "0/gpu_id"), "0\n");
  EXPECT_EQ(machine.read(std::string(kNodes) + "0/name"), "\n");
  EXPECT_EQ(machine.read(std::string(kNodes) + "1/name"), "ip discovery\n");
  EXPECT_EQ(machine.node(0, "")["cpu_cores_count"], "16");
  EXPECT_EQ(machine.node(0, "mem_banks/0/")["size_in_bytes"], "33000000000");
  EXPECT_EQ(machine.node(0, "mem_banks/0/")["heap_type"], "0");
  EXPECT_FALSE(machine.node(0, "").contains("fw_version"));
  auto gpu = machine.node(1, "");
  EXPECT_EQ(gpu["location_id"], "768");
  EXPECT_EQ(gpu["drm_render_minor"], "128");
  EXPECT_EQ(gpu["hive_id"], "0");
  EXPECT_EQ(gpu["simd_id_base"], "2147487744");
  EXPECT_NE(gpu["unique_id"], "0");
  EXPECT_EQ(machine.read(std::string(kNodes) + "1/mem_banks/0/properties"),
            "heap_type 1\nsize_in_bytes 68702699520\nflags 0\nwidth 4096\nmem_clk_max 1600\n");
  EXPECT_EQ(machine.read(std::string(kNodes) + "1/io_links/0/properties"),
            "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nmin_latency 0\n"
            "max_latency 0\nmin_bandwidth 312\nmax_bandwidth 32000\nrecommended_transfer_size 0\n"
            "recommended_sdma_engine_id_mask 3\nflags 1\n");
  EXPECT_EQ(machine.links(0), (Links{{1, "2 20 312 32000 3 3"}}));
}

TEST(Topology, GpuIdIsTheDriversChecksum) {
  GpuMachine machine({"gfx90a"});
  // crc16 of device and function, subsystem, domain, device, bus, memory size, partitions.
  EXPECT_EQ(machine.read(std::string(kNodes) + "1/gpu_id"), "12261\n");
}

TEST(Topology, GpuIdsAndMinorsAreUniqueAmong64) {
  GpuMachine machine(std::vector<std::string>(64, "gfx1100"));
  std::set<std::string> gpu_ids, minors, locations;
  for (unsigned number = 1; number <= 64; ++number) {
    gpu_ids.insert(machine.read(kNodes + std::to_string(number) + "/gpu_id"));
    auto gpu = machine.node(number, "");
    minors.insert(gpu["drm_render_minor"]);
    locations.insert(gpu["domain"] + "/" + gpu["location_id"]);
  }
  EXPECT_EQ(gpu_ids.size(), 64u);
  EXPECT_EQ(minors.size(), 64u);
  EXPECT_EQ(locations.size(), 64u);
  EXPECT_FALSE(gpu_ids.contains("0\n"));
  EXPECT_TRUE(machine.sysfs().find("dev/char/226:191"));
  EXPECT_EQ(machine.read("devices/virtual/kfd/kfd/topology/generation_id"), "65\n");
}

TEST(Topology, CachesFollowTheComputeUnits) {
  GpuMachine machine({"gfx90a"});
  EXPECT_EQ(machine.names(std::string(kNodes) + "1/caches").size(), 217u);
  const std::string first = machine.read(std::string(kNodes) + "1/caches/0/properties");
  EXPECT_TRUE(
      first.starts_with("processor_id_low 2147487744\nlevel 1\nsize 16\ncache_line_size 64\n"
                        "cache_lines_per_tag 0\nassociation 0\nlatency 0\ntype 9\nsibling_map 1,0,"));
  EXPECT_TRUE(first.ends_with(",0\n"));
  // 13 of 14 units are active: the second array's first unit follows a gap.
  EXPECT_EQ(machine.node(1, "caches/12/")["processor_id_low"], "2147487756");
  EXPECT_EQ(machine.node(1, "caches/13/")["processor_id_low"], "2147487758");
  // Instruction caches serve two; the last one of an array serves one.
  EXPECT_EQ(machine.node(1, "caches/104/")["type"], "10");
  EXPECT_TRUE(machine.node(1, "caches/104/")["sibling_map"].starts_with("1,1,0,"));
  EXPECT_TRUE(machine.node(1, "caches/110/")["sibling_map"].starts_with("1,0,0,"));
  // One second-level cache: a word of 32 for each of eight arrays.
  const std::string map = machine.node(1, "caches/216/")["sibling_map"];
  EXPECT_EQ(machine.node(1, "caches/216/")["level"], "2");
  EXPECT_EQ(std::count(map.begin(), map.end(), ','), 8 * 32 - 1);
  EXPECT_EQ(std::count(map.begin(), map.end(), '1'), 104);
}

TEST(Topology, FourGpusOfAHiveAreLinkedByXgmi) {
  GpuMachine machine({"gfx90a", "gfx90a", "gfx90a", "gfx90a"});
  const std::string xgmi = "11 15 50000 50000 28 1";
  for (unsigned number = 1; number <= 4; ++number) {
    Links expected{{0, "2 20 312 32000 3 1"}};
    for (unsigned peer = 1; peer <= 4; ++peer) {
      if (peer != number) expected[peer] = xgmi;
    }
    EXPECT_EQ(machine.links(number), expected);
    EXPECT_EQ(machine.links(number, "p2p_links"), Links{});
    EXPECT_EQ(machine.node(number, "")["hive_id"], machine.node(1, "")["hive_id"]);
  }
  EXPECT_NE(machine.node(1, "")["hive_id"], "0");
  EXPECT_EQ(machine.node(0, "")["hive_id"], "0");
}

TEST(Topology, AFifthGpuStandsAlone) {
  GpuMachine machine({"gfx90a", "gfx90a", "gfx90a", "gfx90a", "gfx90a"});
  EXPECT_EQ(machine.node(5, "")["hive_id"], "0");
  EXPECT_EQ(machine.links(5), (Links{{0, "2 20 312 32000 3 1"}}));
  EXPECT_EQ(machine.links(5, "p2p_links").size(), 4u);
  EXPECT_EQ(machine.links(5, "p2p_links")[1], "2 40 312 32000 3 3");
}

TEST(Topology, AFullHiveHasAnEngineForEachPeer) {
  GpuMachine machine(std::vector<std::string>(8, "gfx942"));
  EXPECT_EQ(machine.links(1)[2], "11 15 64000 64000 " + std::to_string(1 << 14) + " 1");
  EXPECT_EQ(machine.links(1)[3], "11 15 64000 64000 " + std::to_string(1 << 12) + " 1");
  EXPECT_EQ(machine.links(3)[1], "11 15 64000 64000 " + std::to_string(1 << 10) + " 1");
  EXPECT_EQ(machine.node(2, "")["simd_id_base"], "2147487784");
}

TEST(Topology, SmallBarIsReachedByNobody) {
  GpuMachine machine({"gfx1030", "gfx90a"});
  EXPECT_EQ(machine.links(0), (Links{{2, "2 20 312 32000 3 3"}}));
  EXPECT_EQ(machine.links(1), (Links{{0, "2 20 312 32000 0 1"}}));
  // Copied from a link that had no flags yet, and nothing leads back to set them.
  EXPECT_EQ(machine.links(1, "p2p_links"), (Links{{2, "2 40 312 32000 0 0"}}));
  EXPECT_EQ(machine.links(2, "p2p_links"), Links{});
  EXPECT_EQ(machine.node(1, "mem_banks/0/")["heap_type"], "2");
}

TEST(Topology, TwoSockets) {
  GpuMachine machine({"gfx1100", "gfx1100"}, {.cpu_nodes = 2, .cpu_cores = 9, .memory_bytes = 64ull << 30});
  EXPECT_EQ(machine.node(0, "")["cpu_cores_count"], "5");
  EXPECT_EQ(machine.node(1, "")["cpu_cores_count"], "4");
  EXPECT_EQ(machine.node(1, "")["cpu_core_id_base"], "5");
  EXPECT_EQ(machine.node(1, "mem_banks/0/")["size_in_bytes"], std::to_string(32ull << 30));
  EXPECT_EQ(machine.links(0), (Links{{1, "1 32 0 0 0 0"}, {2, "2 20 312 32000 3 3"}}));
  EXPECT_EQ(machine.links(3), (Links{{1, "2 20 312 32000 3 1"}}));
  EXPECT_EQ(machine.links(3, "p2p_links"), (Links{{0, "2 52 0 0 0 1"}, {2, "2 72 0 0 3 3"}}));
  EXPECT_EQ(machine.node(3, "")["domain"], "1");
  const std::string second = "devices/pci0001:00/0001:00:01.1/0001:01:00.0/0001:02:00.0/0001:03:00.0/";
  EXPECT_EQ(machine.read(second + "numa_node"), "1\n");
  EXPECT_EQ(machine.read(second + "local_cpulist"), "5-8\n");
  EXPECT_EQ(machine.read(second + "local_cpus"), "1e0\n");
}

TEST(Topology, CpuNodesThatTheHostLacksListACache) {
  const TopologyGraph graph({.node_count = 2, .core_count = 4, .host_node_count = 1}, {}, nullptr);
  EXPECT_FALSE(graph.nodes()[0].lists_cpu_cache);
  EXPECT_TRUE(graph.nodes()[1].lists_cpu_cache);
  const std::string cache = cpu_cache_properties(2, 2);
  EXPECT_TRUE(cache.starts_with("processor_id_low 2\nlevel 3\nsize 32768\n")) << cache;
  EXPECT_NE(cache.find("\ntype 5\nsibling_map 1,1,0,"), std::string::npos) << cache;
}

TEST(Topology, CpusAlone) {
  GpuMachine machine({});
  EXPECT_EQ(machine.names("devices/virtual/kfd/kfd/topology/nodes"), std::set<std::string>{"0"});
  EXPECT_EQ(machine.read("devices/virtual/kfd/kfd/topology/generation_id"), "1\n");
  EXPECT_EQ(machine.links(0), Links{});
  EXPECT_EQ(machine.read("module/amdgpu/initstate"), "live\n");
  EXPECT_FALSE(machine.sysfs().find("class/drm"));
}

TEST(Topology, ApuShowsTheMemoryItShares) {
  GpuMachine machine({"gfx1151"}, {.memory_bytes = 128ull << 30});
  EXPECT_EQ(machine.node(1, "mem_banks/0/")["size_in_bytes"], std::to_string(64ull << 30));
  EXPECT_EQ(machine.node(1, "")["unique_id"], "0");
  EXPECT_EQ(machine.node(1, "")["location_id"], "256");
}

TEST(Topology, LimitsLowerTheMemory) {
  Settings settings;
  settings.limits.vram_bytes = 1 << 30;
  GpuMachine machine({"gfx90a"}, {}, settings);
  EXPECT_EQ(machine.node(1, "mem_banks/0/")["size_in_bytes"], std::to_string(1 << 30));
  EXPECT_EQ(machine.read(std::string(kFirstGpu) + "mem_info_vram_total"), std::to_string(1 << 30) + "\n");
}

TEST(Topology, SeedDecidesIdsAndLinkOrder) {
  const std::vector<std::string> gpus(4, "gfx90a");
  const auto order = [](GpuMachine& machine) {
    std::string order;
    for (unsigned number = 1; number <= 4; ++number)
      for (unsigned i = 0; i < 4; ++i)
        order += machine.node(number, "io_links/" + std::to_string(i) + "/")["node_to"];
    return order;
  };
  GpuMachine first(gpus), again(gpus);
  EXPECT_EQ(first.node(1, "")["unique_id"], again.node(1, "")["unique_id"]);
  EXPECT_EQ(order(first), "0234013401240123");
  Settings settings;
  settings.seed = 7;
  GpuMachine other(gpus, {}, settings);
  EXPECT_NE(first.node(1, "")["unique_id"], other.node(1, "")["unique_id"]);
  EXPECT_NE(order(first), order(other));
  EXPECT_EQ(first.links(2), other.links(2));
}

TEST(AddGpus, RefusesWhatNoMachineHas) {
  const auto problem = [](GpuMachineRequest request) {
    Machine machine{Settings{}};
    const auto text = add_gpus(machine, std::move(request));
    EXPECT_TRUE(machine.nodes().empty());
    return text.value_or("");
  };
  EXPECT_EQ(problem({.gpus = std::vector<GpuProfile>(65, load("gfx90a"))}),
            "a machine has at most 64 GPUs, not 65");
  EXPECT_EQ(problem({.cpu_nodes = 9}), "cpu.nodes takes a number from 1 to 8, not 9");
  EXPECT_EQ(problem({.cpu_nodes = 0}), "cpu.nodes takes a number from 1 to 8, not 0");
  EXPECT_EQ(problem({.cpu_nodes = 4, .cpu_cores = 3}),
            "cpu.cores takes a number from 4 (one per node) to 8192, not 3");
}

TEST(DeviceAttributes, MemoryFollowsAllocations) {
  GpuMachine machine({"gfx90a"});
  const std::string used = std::string(kFirstGpu) + "mem_info_vram_used";
  EXPECT_EQ(machine.read(used), "0\n");
  ASSERT_TRUE(machine.gpu(0).reserve(BoKind::kVram, 3 << 20));
  EXPECT_EQ(machine.read(used), std::to_string(3 << 20) + "\n");
  EXPECT_EQ(machine.read(std::string(kFirstGpu) + "mem_info_vis_vram_used"), std::to_string(3 << 20) + "\n");
  ASSERT_TRUE(machine.gpu(0).reserve(BoKind::kGtt, 4096));
  EXPECT_EQ(machine.read(std::string(kFirstGpu) + "mem_info_gtt_used"), "4096\n");
}

TEST(DeviceAttributes, IdentityAndBus) {
  GpuMachine machine({"gfx90a"});
  const std::string gpu = kFirstGpu;
  EXPECT_EQ(machine.read(gpu + "vendor"), "0x1002\n");
  EXPECT_EQ(machine.read(gpu + "device"), "0x740f\n");
  EXPECT_EQ(machine.read(gpu + "revision"), "0x02\n");
  EXPECT_EQ(machine.read(gpu + "class"), "0x038000\n");
  EXPECT_EQ(machine.read(gpu + "current_link_speed"), "16.0 GT/s PCIe\n");
  EXPECT_EQ(machine.read(gpu + "current_link_width"), "16\n");
  EXPECT_EQ(machine.read(gpu + "uevent"),
            "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SUBSYS_ID=1002:0C34\nPCI_SLOT_NAME=0000:"
            "03:00.0\n"
            "MODALIAS=pci:v00001002d0000740Fsv00001002sd00000C34bc03sc80i00\n");
  const std::string config = machine.read(gpu + "config");
  ASSERT_EQ(config.size(), 256u);
  EXPECT_EQ(config.substr(0, 4), std::string("\x02\x10\x0f\x74"));
  EXPECT_EQ(config.substr(0x2c, 4), std::string("\x02\x10\x34\x0c"));
  EXPECT_EQ(machine.read(gpu + "drm/renderD128/uevent"),
            "MAJOR=226\nMINOR=128\nDEVNAME=dri/renderD128\nDEVTYPE=drm_minor\n");
  EXPECT_EQ(machine.names(gpu + "drm"), (std::set<std::string>{"card0", "renderD128"}));
  EXPECT_EQ(machine.read(gpu + "ras/features"), "feature mask: 0xaf\n");
  EXPECT_EQ(machine.read(gpu + "pp_dpm_sclk"), "0: 500Mhz *\n1: 800Mhz \n2: 1700Mhz \n");
  EXPECT_FALSE(machine.sysfs().find(gpu + "boot_vga"));
}

TEST(DeviceAttributes, PerformanceLevelTakesTheDriversWords) {
  GpuMachine machine({"gfx90a"});
  const std::string path = std::string(kFirstGpu) + "power_dpm_force_performance_level";
  const auto& attribute = std::get<SysfsTree::Attribute>(machine.sysfs().find(path)->what);
  EXPECT_EQ(machine.read(path), "auto\n");
  EXPECT_TRUE(attribute.store("high\n"));
  EXPECT_EQ(machine.read(path), "high\n");
  EXPECT_EQ(attribute.store("fast\n").error(), Errno(EINVAL));
  EXPECT_EQ(attribute.store("").error(), Errno(EINVAL));
  EXPECT_EQ(machine.read(path), "high\n");
}

TEST(DeviceAttributes, MetricsCarryTheirHeader) {
  GpuMachine board({"gfx90a"}), apu({"gfx1151"});
  const std::string v1 = board.read(std::string(kFirstGpu) + "gpu_metrics");
  EXPECT_EQ(v1.size(), 120u);
  EXPECT_EQ(v1.substr(0, 4), std::string("\x78\x00\x01\x03", 4));
  EXPECT_EQ(v1[4], 37);
  const std::string v3 = apu.read("devices/pci0000:00/0000:00:01.1/0000:01:00.0/gpu_metrics");
  EXPECT_EQ(v3.size(), 264u);
  EXPECT_EQ(v3.substr(0, 4), std::string("\x08\x01\x03\x00", 4));
}

// Walks the whole tree as a client could.
class EachMachine : public testing::TestWithParam<const char*> {
 protected:
  void walk(SysfsTree& sysfs, const SysfsTree::Entry& directory, const std::string& path,
            const std::function<void(const std::string&, const SysfsTree::Entry&)>& visit) {
    for (const auto& [name, entry] : sysfs.list(directory)) {
      const std::string at = path.empty() ? name : path + "/" + name;
      visit(at, *entry);
      if (entry->is_directory()) walk(sysfs, *entry, at, visit);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Shipped, EachMachine, testing::ValuesIn(kProfileNames),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EachMachine, LinksLeadSomewhere) {
  GpuMachine machine({GetParam(), GetParam()});
  walk(machine.sysfs(), *machine.sysfs().find(""), "",
       [&](const std::string& path, const SysfsTree::Entry& entry) {
         const auto* link = std::get_if<SysfsTree::Link>(&entry.what);
         if (link == nullptr) return;
         const std::string to =
             (std::filesystem::path(path).parent_path() / link->target).lexically_normal().string();
         const SysfsTree::EntryRef target = machine.sysfs().find(to);
         EXPECT_TRUE(target && !std::holds_alternative<SysfsTree::Link>(target->what))
             << path << " -> " << to;
       });
}

TEST_P(EachMachine, AttributesFitAPage) {
  GpuMachine machine({GetParam()});
  walk(machine.sysfs(), *machine.sysfs().find(""), "",
       [](const std::string& path, const SysfsTree::Entry& entry) {
         if (!std::holds_alternative<SysfsTree::Attribute>(entry.what)) return;
         const Result<std::string> content = SysfsTree::read(entry);
         ASSERT_TRUE(content) << path;
         EXPECT_LE(content.value().size(), 4096u) << path;
       });
}

TEST_P(EachMachine, CachesAreAsManyAsCounted) {
  GpuMachine machine({GetParam()});
  EXPECT_EQ(std::to_string(machine.names(std::string(kNodes) + "1/caches").size()),
            machine.node(1, "")["caches_count"]);
}

}  // namespace
}  // namespace understudy::kfd
