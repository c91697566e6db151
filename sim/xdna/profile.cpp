// Reading an NPU profile: every complaint names file and line, what is wrong and what is accepted.
#include "sim/xdna/profile.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <filesystem>

namespace understudy::xdna {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Complaint {
  std::string text;
};

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  NpuProfile read(const toml::table& root) {
    if (root["kind"].value_or(std::string_view{}) != "npu") complain(root, "kind", "must be \"npu\"");
    NpuProfile profile;
    profile.name = text(root, "name");
    profile.vbnv = text(root, "vbnv");
    profile.pci_device = static_cast<std::uint32_t>(number(root, "pci_device"));
    profile.pci_revision = static_cast<std::uint32_t>(number(root, "pci_revision"));
    profile.columns = static_cast<std::uint16_t>(number(root, "columns"));
    profile.rows = static_cast<std::uint16_t>(number(root, "rows"));
    profile.usable_columns = static_cast<std::uint16_t>(number(root, "usable_columns"));
    profile.first_usable_column = static_cast<std::uint16_t>(number(root, "first_usable_column"));
    profile.core = tile(root, "core");
    profile.memory = tile(root, "memory");
    profile.shim = tile(root, "shim");
    profile.column_status_bytes = static_cast<std::uint32_t>(number(root, "column_status_bytes"));
    profile.aie_version = numbers<2>(root, "aie_version");
    profile.firmware_version = numbers<4>(root, "firmware_version");
    profile.protocol_version = numbers<2>(root, "protocol_version");
    profile.context_limit = static_cast<std::uint32_t>(number(root, "context_limit"));
    profile.heap_max_bytes = number(root, "heap_max_mib") * kMiB;
    profile.tops_max = number(root, "tops_max");
    profile.tops_at_boot = number(root, "tops_at_boot");
    const toml::array* levels = root["dpm_levels_mhz"].as_array();
    if (levels == nullptr || levels->empty())
      complain(root, "dpm_levels_mhz", "must be a list of [npu, h] clock pairs");
    for (const toml::node& level : *levels) {
      const toml::array* pair = level.as_array();
      if (pair == nullptr || pair->size() != 2)
        complain(root, "dpm_levels_mhz", "must be a list of [npu, h] clock pairs");
      profile.dpm_levels.push_back(
          {pair->at(0).value_or(std::uint32_t{0}), pair->at(1).value_or(std::uint32_t{0})});
    }
    if (profile.core.row_count == 0 || profile.columns == 0)
      complain(root, "core", "row_count and columns must not be 0");
    return profile;
  }

 private:
  [[noreturn]] void complain(const toml::table& table, std::string_view key, std::string_view what) {
    const toml::node* node = table.get(key);
    const auto line = (node != nullptr ? node->source() : table.source()).begin.line;
    throw Complaint{fmt::format("{}:{}: '{}' {}", file_, line, key, what)};
  }
  std::uint64_t number(const toml::table& table, std::string_view key) {
    const auto value = table[key].value_exact<std::int64_t>();
    if (!value || *value < 0) complain(table, key, "must be a number");
    return static_cast<std::uint64_t>(*value);
  }
  std::string text(const toml::table& table, std::string_view key) {
    const auto value = table[key].value_exact<std::string>();
    if (!value) complain(table, key, "must be a string");
    return *value;
  }
  template <std::size_t Count>
  std::array<std::uint32_t, Count> numbers(const toml::table& table, std::string_view key) {
    std::array<std::uint32_t, Count> values{};
    const toml::array* list = table[key].as_array();
    if (list == nullptr || list->size() != Count)
      complain(table, key, fmt::format("must be a list of {} numbers", Count));
    for (std::size_t i = 0; i < Count; ++i) values[i] = list->at(i).value_or(std::uint32_t{0});
    return values;
  }
  TileMetadata tile(const toml::table& root, std::string_view key) {
    const toml::table* table = root[key].as_table();
    if (table == nullptr)
      complain(root, key, "must be a table of row_count, row_start, dma_channels, locks, event_registers");
    return {static_cast<std::uint16_t>(number(*table, "row_count")),
            static_cast<std::uint16_t>(number(*table, "row_start")),
            static_cast<std::uint16_t>(number(*table, "dma_channels")),
            static_cast<std::uint16_t>(number(*table, "locks")),
            static_cast<std::uint16_t>(number(*table, "event_registers"))};
  }
  const std::string file_;
};

// Protocol 6.12 and all of 7: preemption, and contexts that share the array in time only.
bool at_least(const std::array<std::uint32_t, 2>& version, std::uint32_t major, std::uint32_t minor) {
  return version[0] > major || (version[0] == major && version[1] >= minor);
}

}  // namespace

bool NpuProfile::temporal_only() const {
  return at_least(protocol_version, 6, 12);
}
bool NpuProfile::can_expand_heap() const {
  return at_least(protocol_version, 6, 18);
}
bool NpuProfile::runs_start_npu() const {
  return protocol_version[0] == 5 ? at_least(protocol_version, 5, 8) : at_least(protocol_version, 6, 15);
}

std::variant<NpuProfile, std::string> load_npu_profile(const std::string& name_or_path,
                                                       const std::vector<std::string>& directories) {
  std::string path = name_or_path;
  if (path.find('/') == std::string::npos && !path.ends_with(".toml")) {
    for (const std::string& directory : directories) {
      const std::string candidate = directory + "/" + name_or_path + ".toml";
      if (std::filesystem::exists(candidate)) path = candidate;
    }
  }
  try {
    return Reader(path).read(toml::parse_file(path));
  } catch (const toml::parse_error& error) {
    return fmt::format("{}:{}: {}", path, error.source().begin.line, error.description());
  } catch (const Complaint& complaint) {
    return complaint.text;
  }
}

}  // namespace understudy::xdna
