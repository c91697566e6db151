#include "sim/kfd/profile.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/topology/support.h"

namespace understudy::kfd {
namespace {

std::string problem_of(const std::string& name_or_path, const profile::Directories& directories = kProfiles) {
  std::string why;
  EXPECT_FALSE(load_gpu_profile(name_or_path, directories, &why));
  return why;
}

std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A copy of gfx90a.toml with one line replaced.
std::string gfx90a_with(const std::string& line, const std::string& replacement) {
  std::string text = read_file(std::filesystem::path(PROFILES) / "gfx90a.toml");
  const std::size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), replacement);
}

class EachProfile : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Shipped, EachProfile, testing::ValuesIn(kProfileNames),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EachProfile, PropertiesAreThoseOfTheRealDevice) {
  const std::set<std::string> of_the_machine = {
      "location_id",    "domain",          "drm_render_minor",       "hive_id", "unique_id", "simd_id_base",
      "io_links_count", "p2p_links_count", "max_engine_clk_ccompute"};
  const auto expected =
      lines_of(read_file(std::filesystem::path(EXPECTED) / (std::string(GetParam()) + ".properties")));
  const GpuProfile profile = load(GetParam());
  ASSERT_EQ(profile.properties.size(), expected.size());
  for (const auto& [key, value] : profile.properties) {
    ASSERT_TRUE(expected.contains(key)) << key;
    if (!of_the_machine.contains(key)) {
      EXPECT_EQ(std::to_string(value), expected.at(key)) << key;
    }
  }
}

TEST_P(EachProfile, MasksHoldTheActiveComputeUnits) {
  const ComputeLayout layout = load(GetParam()).compute;
  unsigned active = 0;
  for (unsigned xcc = 0; xcc < layout.xcc_count; ++xcc)
    for (unsigned engine = 0; engine < layout.shader_engines; ++engine)
      for (unsigned array = 0; array < layout.arrays_per_engine; ++array)
        active += static_cast<unsigned>(__builtin_popcount(layout.active_mask(xcc, engine, array)));
  EXPECT_EQ(active, layout.active_cus);
}

TEST(Profiles, AreListedByName) {
  EXPECT_EQ(profile::names(kProfiles, "gpu"),
            std::vector<std::string>(std::begin(kProfileNames), std::end(kProfileNames)));
}

TEST(Profiles, EarlierDirectoryWins) {
  const ScratchDirectory scratch;
  scratch.write("gfx90a.toml", gfx90a_with("\"AMD Instinct MI210\"", "\"Mine\""));
  std::string why;
  const auto profile = load_gpu_profile("gfx90a", {scratch.path(), PROFILES}, &why);
  ASSERT_TRUE(profile) << why;
  EXPECT_EQ(profile->marketing_name, "Mine");
}

TEST(Profiles, CanBeBasedOnAnother) {
  const ScratchDirectory scratch;
  const std::string path =
      scratch.write("small.toml", "based_on = \"gfx90a\"\n[memory]\nvram_bytes = 1073741824\n");
  std::string why;
  const auto profile = load_gpu_profile(path, kProfiles, &why);
  ASSERT_TRUE(profile) << why;
  EXPECT_EQ(profile->name, "small");
  EXPECT_EQ(profile->vram_bytes, 1073741824u);
  EXPECT_EQ(profile->memory_clock_mhz, 1600u);
  EXPECT_EQ(profile->property("gfx_target_version"), 90010u);
}

TEST(ProfileErrors, UnknownNameListsTheKnownOnes) {
  EXPECT_EQ(problem_of("gfx9000"),
            "there is no profile 'gfx9000'; there are gfx1030, gfx1100, gfx1151, gfx1201, gfx90a, gfx942");
}

TEST(ProfileErrors, EmptyDirectoryIsNamed) {
  EXPECT_EQ(problem_of("gfx90a", {"/nonexistent"}),
            "there is no profile 'gfx90a', nor any other in /nonexistent");
}

TEST(ProfileErrors, MissingFileIsNamed) {
  EXPECT_EQ(problem_of("./none.toml"), "there is no profile file ./none.toml");
}

TEST(ProfileErrors, NameTheLine) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("a.toml", gfx90a_with("link_width = 16", "link_width = 17"));
  EXPECT_EQ(problem_of(path), path + ":15: pci.link_width takes a number from 1 to 16");
}

TEST(ProfileErrors, SyntaxErrorNamesTheLine) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("a.toml", "kind = \"gpu\"\nmarketing_name =\n");
  EXPECT_TRUE(problem_of(path).starts_with(path + ":2: ")) << problem_of(path);
}

TEST(ProfileErrors, UnknownKeyListsTheKnownOnes) {
  const ScratchDirectory scratch;
  const std::string path =
      scratch.write("a.toml", gfx90a_with("links_per_peer = 1", "links_per_peer = 1\nhops = 2"));
  EXPECT_TRUE(problem_of(path).ends_with(
      ": unknown key hops in [xgmi]; it takes hive_size, link_bandwidth_mbs, links_per_peer"))
      << problem_of(path);
}

TEST(ProfileErrors, MissingKeyAndTable) {
  const ScratchDirectory scratch;
  const std::string no_key = scratch.write("a.toml", gfx90a_with("clock_mhz = 1600", ""));
  EXPECT_TRUE(problem_of(no_key).ends_with("memory.clock_mhz is missing; it takes a number from 1 to 20000"))
      << problem_of(no_key);
  const std::string no_table =
      scratch.write("b.toml", "kind = \"gpu\"\nmarketing_name = \"x\"\ntopology_name = \"x\"\n");
  EXPECT_EQ(problem_of(no_table), no_table + ":1: the table [compute] is missing");
}

TEST(ProfileErrors, WrongTypesSayWhatIsTaken) {
  const ScratchDirectory scratch;
  const auto problem_with = [&](const std::string& line, const std::string& replacement) {
    return problem_of(scratch.write("a.toml", gfx90a_with(line, replacement)));
  };
  EXPECT_NE(problem_with("xnack = true", "xnack = 1").find("compute.xnack takes true or false"),
            std::string::npos);
  EXPECT_NE(
      problem_with("bar = \"large\"", "bar = \"big\"").find("memory.bar takes one of \"large\", \"small\""),
      std::string::npos);
  EXPECT_NE(problem_with("mec_firmware = 78", "mec_firmware = -1")
                .find("compute.mec_firmware takes a number from 0"),
            std::string::npos);
  EXPECT_NE(problem_with("[xgmi]", "[[xgmi]]").find("xgmi is a table: [xgmi]"), std::string::npos);
  EXPECT_NE(
      problem_with("sclk_mhz = [500, 800, 1700]", "sclk_mhz = [500, \"fast\"]").find("sensors.sclk_mhz"),
      std::string::npos);
  EXPECT_NE(problem_with("blocks = [\"umc\"", "blocks = [\"ucm\"").find("ras.blocks takes a list of umc"),
            std::string::npos);
  EXPECT_NE(problem_with("active_cus = 104", "active_cus = 113")
                .find("compute.active_cus takes a number from 8 to 112"),
            std::string::npos);
}

TEST(ProfileErrors, ProfileOfAnotherKind) {
  const ScratchDirectory scratch;
  const std::string path = scratch.write("a.toml", "kind = \"npu\"\n");
  EXPECT_EQ(problem_of(path), path + ":1: kind takes one of \"gpu\"");
}

TEST(ProfileErrors, BasedOnNothingOrItself) {
  const ScratchDirectory scratch;
  const std::string unknown = scratch.write("a.toml", "based_on = \"gfx1\"\n");
  EXPECT_TRUE(problem_of(unknown).starts_with(unknown + ":1: based_on: there is no profile 'gfx1'"));
  const std::string circle = scratch.write("b.toml", "based_on = \"b\"\n");
  EXPECT_EQ(problem_of(circle, {scratch.path()}), circle + ":1: based_on leads through too many profiles");
}

}  // namespace
}  // namespace understudy::kfd
