#include "sim/core/sysfs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace understudy {
namespace {

TEST(SysfsTree, MakesMissingParents) {
  SysfsTree tree;
  tree.attribute("devices/virtual/kfd/kfd/topology/generation_id", "2\n");
  EXPECT_TRUE(tree.find("devices/virtual/kfd")->is_directory());
  EXPECT_EQ(SysfsTree::read(*tree.find("devices/virtual/kfd/kfd/topology/generation_id")).value(), "2\n");
  EXPECT_FALSE(tree.find("devices/virtual/kfd/none"));
  EXPECT_FALSE(tree.find("devices/virtual/kfd/kfd/topology/generation_id/below"));
}

TEST(SysfsTree, ShowRunsAtEachRead) {
  SysfsTree tree;
  int reads = 0;
  tree.attribute("used", [&] { return Result<std::string>(std::to_string(++reads)); });
  EXPECT_EQ(SysfsTree::read(*tree.find("used")).value(), "1");
  EXPECT_EQ(SysfsTree::read(*tree.find("used")).value(), "2");
}

TEST(SysfsTree, FillsADirectoryWhenSomebodyLooks) {
  SysfsTree tree;
  int fills = 0;
  tree.directory("caches", [&] {
    ++fills;
    tree.attribute("caches/0/properties", "level 1\n");
  });
  EXPECT_TRUE(tree.find("caches")->is_directory());
  EXPECT_EQ(fills, 0);
  EXPECT_EQ(SysfsTree::read(*tree.find("caches/0/properties")).value(), "level 1\n");
  EXPECT_EQ(tree.list(*tree.find("caches")).size(), 1u);
  EXPECT_EQ(fills, 1);
}

TEST(SysfsTree, FillsADirectoryOnceForManyReaders) {
  SysfsTree tree;
  std::atomic<int> fills = 0;
  tree.directory("nodes", [&] {
    ++fills;
    for (int i = 0; i < 100; ++i) tree.attribute("nodes/" + std::to_string(i), "");
  });
  std::vector<std::jthread> readers;
  std::atomic<std::size_t> seen = 0;
  for (int i = 0; i < 8; ++i) readers.emplace_back([&] { seen += tree.list(*tree.find("nodes")).size(); });
  readers.clear();
  EXPECT_EQ(fills, 1);
  EXPECT_EQ(seen, 800u);
}

TEST(SysfsTree, LinksAreRelativeAndStayInside) {
  SysfsTree tree;
  tree.directory("devices/virtual/kfd/kfd");
  tree.link_to("class/kfd/kfd", "devices/virtual/kfd/kfd");
  EXPECT_EQ(std::get<SysfsTree::Link>(tree.find("class/kfd/kfd")->what).target,
            "../../devices/virtual/kfd/kfd");
  tree.link_to("devices/pci0000:00/0000:03:00.0/drm/card0/device", "devices/pci0000:00/0000:03:00.0");
  EXPECT_EQ(
      std::get<SysfsTree::Link>(tree.find("devices/pci0000:00/0000:03:00.0/drm/card0/device")->what).target,
      "../../../0000:03:00.0");
}

TEST(SysfsTree, DirectoryTwiceKeepsItsEntries) {
  SysfsTree tree;
  tree.attribute("a/b", "x");
  tree.directory("a");
  EXPECT_TRUE(tree.find("a/b"));
  tree.remove("a/b");
  EXPECT_FALSE(tree.find("a/b"));
  EXPECT_EQ(tree.list(*tree.find("a")).size(), 0u);
}

}  // namespace
}  // namespace understudy
