// What the topology tests share: the profiles of this repository, and files written for one test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "sim/kfd/profile.h"

namespace understudy::kfd {

inline const profile::Directories kProfiles{PROFILES};
inline constexpr const char* kProfileNames[] = {"gfx1030", "gfx1100", "gfx1151",
                                                "gfx1201", "gfx90a",  "gfx942"};

inline GpuProfile load(const std::string& name) {
  std::string why;
  auto profile = load_gpu_profile(name, kProfiles, &why);
  EXPECT_TRUE(profile) << why;
  return profile.value_or(GpuProfile{});
}

// "key value" lines.
inline std::map<std::string, std::string> lines_of(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t space = line.find(' ');
    lines[line.substr(0, space)] = space == std::string::npos ? "" : line.substr(space + 1);
  }
  return lines;
}

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "understudy-test-XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

}  // namespace understudy::kfd
