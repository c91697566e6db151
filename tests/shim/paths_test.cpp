// Paths as a client sees them: the machine's names, under every libc function that takes or gives one.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/shim/client.h"

namespace understudy::test {
namespace {

constexpr char kSysfs[] = "/sys/class/accel/accel0/device";
constexpr char kPci[] = "/sys/devices/pci0000:c0/0000:c3:00.0";

std::string read_all(int fd) {
  char text[256];
  const ssize_t got = ::read(fd, text, sizeof text);
  return got < 0 ? "error" : std::string(text, static_cast<std::size_t>(got));
}

std::string content_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd ? read_all(fd.get()) : "";
}

class InDirectory {
 public:
  explicit InDirectory(const char* path) : before_(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    entered = ::chdir(path) == 0;
  }
  ~InDirectory() { (void)!::fchdir(before_.get()); }
  bool entered = false;

 private:
  UniqueFd before_;
};

std::vector<std::string> names_in(const char* path) {
  std::vector<std::string> names;
  if (DIR* directory = ::opendir(path)) {
    while (const dirent* entry = ::readdir(directory)) {
      if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    }
    ::closedir(directory);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_is_the_node(const struct stat& info) {
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777, 0666u);
  EXPECT_EQ(info.st_rdev, makedev(261, 0));
  EXPECT_EQ(info.st_size, 0);
}

TEST(Stat, NodeIsACharacterDevice) {
  struct stat info;
  ASSERT_EQ(::stat(kNode, &info), 0);
  expect_is_the_node(info);
  ASSERT_EQ(::lstat(kNode, &info), 0);
  expect_is_the_node(info);
  ASSERT_EQ(::fstatat(AT_FDCWD, kNode, &info, 0), 0);
  expect_is_the_node(info);
  struct stat64 large;
  ASSERT_EQ(::stat64(kNode, &large), 0);
  EXPECT_EQ(large.st_rdev, makedev(261, 0));
}

TEST(Stat, OpenFileHasTheNodesNumberAndIdentity) {
  const UniqueFd fd = open_node();
  struct stat by_path, by_fd, by_empty_path;
  ASSERT_EQ(::stat(kNode, &by_path), 0);
  ASSERT_EQ(::fstat(fd.get(), &by_fd), 0);
  ASSERT_EQ(::fstatat(fd.get(), "", &by_empty_path, AT_EMPTY_PATH), 0);
  expect_is_the_node(by_fd);
  expect_is_the_node(by_empty_path);
  EXPECT_EQ(by_fd.st_ino, by_path.st_ino);
  EXPECT_EQ(by_fd.st_dev, by_path.st_dev);
}

TEST(Stat, StatxSaysTheSameEvenWhenAskedForTheTypeAlone) {
  struct statx info;
  ASSERT_EQ(::statx(AT_FDCWD, kNode, 0, STATX_TYPE, &info), 0);
  EXPECT_TRUE(S_ISCHR(info.stx_mode));
  EXPECT_EQ(info.stx_rdev_major, 261u);
  const UniqueFd fd = open_node();
  ASSERT_EQ(::statx(fd.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &info), 0);
  EXPECT_TRUE(S_ISCHR(info.stx_mode));
  EXPECT_EQ(info.stx_rdev_major, 261u);
}

extern "C" int __xstat(int version, const char* path, struct stat* info);
extern "C" int __fxstat(int version, int fd, struct stat* info);

TEST(Stat, OldProgramsSymbolsWork) {
  struct stat info;
  ASSERT_EQ(__xstat(1, kNode, &info), 0);
  expect_is_the_node(info);
  const UniqueFd fd = open_node();
  ASSERT_EQ(__fxstat(1, fd.get(), &info), 0);
  expect_is_the_node(info);
}

TEST(Stat, WhatTheMachineLacksIsAbsentWhateverTheHostHas) {
  struct stat info;
  for (const char* path : {"/dev/dri", "/dev/kfd", "/dev/accel/accel1", "/sys/class/drm",
                           "/sys/module/amdgpu", "/sys/bus/event_source/devices/amd_iommu"}) {
    errno = 0;
    EXPECT_EQ(::stat(path, &info), -1) << path;
    EXPECT_EQ(errno, ENOENT) << path;
  }
}

TEST(Stat, HostFilesAreUntouched) {
  struct stat info;
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_EQ(info.st_rdev, makedev(1, 3));
  ASSERT_EQ(::stat("/dev", &info), 0);
  EXPECT_TRUE(S_ISDIR(info.st_mode));
  EXPECT_EQ(::access("/sys/devices/system/cpu", R_OK), 0);
}

TEST(Open, EveryWayOfWritingThePathLeadsToTheNode) {
  for (const char* path :
       {"/dev/accel/accel0", "//dev//accel/accel0", "/dev/./accel/./accel0", "/dev/accel/../accel/accel0",
        "/./dev/accel/accel0", "/usr/../dev/accel/accel0", "/proc/../dev/accel/accel0"}) {
    const UniqueFd fd(::open(path, O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(fd) << path;
    EXPECT_TRUE(echoes(fd.get())) << path;
  }
}

extern "C" int __open_2(const char* path, int flags);
extern "C" int __openat64_2(int directory, const char* path, int flags);

TEST(Open, EveryFunctionLeadsToTheNode) {
  EXPECT_TRUE(echoes(UniqueFd(::open64(kNode, O_RDWR)).get()));
  EXPECT_TRUE(echoes(UniqueFd(::openat(AT_FDCWD, kNode, O_RDWR)).get()));
  EXPECT_TRUE(echoes(UniqueFd(__open_2(kNode, O_RDWR)).get()));
  EXPECT_TRUE(echoes(UniqueFd(__openat64_2(AT_FDCWD, kNode, O_RDWR)).get()));
  FILE* stream = ::fopen(kNode, "r+");
  ASSERT_NE(stream, nullptr);
  EXPECT_TRUE(echoes(::fileno(stream)));
  ::fclose(stream);
}

TEST(Open, RelativeToADirectoryOrTheWorkingDirectory) {
  const UniqueFd dev(::open("/dev", O_RDONLY | O_DIRECTORY));
  EXPECT_TRUE(echoes(UniqueFd(::openat(dev.get(), "accel/accel0", O_RDWR)).get()));
  const UniqueFd accel(::open("/dev/accel", O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(accel);
  EXPECT_TRUE(echoes(UniqueFd(::openat(accel.get(), "accel0", O_RDWR)).get()));
  struct stat info;
  ASSERT_EQ(::fstatat(accel.get(), "accel0", &info, 0), 0);
  expect_is_the_node(info);
  {
    const InDirectory in("/dev");
    EXPECT_TRUE(echoes(UniqueFd(::open("accel/accel0", O_RDWR)).get()));
    EXPECT_TRUE(echoes(UniqueFd(::open("./accel/accel0", O_RDWR)).get()));
  }
  {
    const InDirectory in("/dev/accel");
    EXPECT_TRUE(echoes(UniqueFd(::open("accel0", O_RDWR)).get()));
    EXPECT_TRUE(echoes(UniqueFd(::open("../accel/accel0", O_RDWR)).get()));
    EXPECT_TRUE(UniqueFd(::open("../null", O_RDWR)));
  }
}

TEST(Open, CloseOnExecIsAsAsked) {
  const UniqueFd closing = open_node(O_RDWR | O_CLOEXEC);
  EXPECT_EQ(::fcntl(closing.get(), F_GETFD), FD_CLOEXEC);
  const UniqueFd staying = open_node(O_RDWR);
  EXPECT_EQ(::fcntl(staying.get(), F_GETFD), 0);
}

TEST(Open, TheLowestFreeNumberIsGiven) {
  const UniqueFd first = open_node();  // the shim's own socket exists from here on
  const int expected = UniqueFd(::open("/dev/null", O_RDONLY)).get();
  const UniqueFd second = open_node();
  EXPECT_EQ(second.get(), expected);
}

TEST(Open, ErrnoIsUntouchedOnSuccessAndSetOnFailure) {
  errno = 77;
  EXPECT_TRUE(open_node());
  EXPECT_EQ(errno, 77);
  EXPECT_FALSE(UniqueFd(::open("/dev/accel/accel9", O_RDWR)));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(UniqueFd(::open("/dev/accel/accel0/x", O_RDWR)));
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_FALSE(UniqueFd(::open(kNode, O_RDWR | O_DIRECTORY)));
  EXPECT_EQ(errno, ENOTDIR);
}

TEST(Open, CreatingFindsTheNodeAndMakesNothingNew) {
  EXPECT_TRUE(echoes(UniqueFd(::open(kNode, O_RDWR | O_CREAT | O_TRUNC, 0600)).get()));
  EXPECT_FALSE(UniqueFd(::open(kNode, O_RDWR | O_CREAT | O_EXCL, 0600)));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_FALSE(UniqueFd(::open("/dev/accel/mine", O_RDWR | O_CREAT, 0600)));
  EXPECT_EQ(errno, EACCES);
  EXPECT_NE(::access("/dev/accel/mine", F_OK), 0);
}

TEST(Open, PathOnlyDescriptorOpensNoFile) {
  const UniqueFd fd(::open(kNode, O_PATH | O_CLOEXEC));
  ASSERT_TRUE(fd);
  EchoArgs args{1, 0};
  EXPECT_EQ(::ioctl(fd.get(), TEST_IOC_ECHO, &args), -1);
  EXPECT_EQ(errno, EBADF);
  struct stat info;
  ASSERT_EQ(::fstat(fd.get(), &info), 0);
  expect_is_the_node(info);
}

TEST(Attribute, StaticAndDynamicContentThroughEveryReader) {
  EXPECT_EQ(content_of(std::string(kSysfs) + "/vendor"), "0x1022\n");
  EXPECT_EQ(content_of(std::string(kSysfs) + "/busy_percent"), "17\n");
  std::ifstream stream(std::string(kSysfs) + "/busy_percent");
  int busy = 0;
  EXPECT_TRUE(stream >> busy);
  EXPECT_EQ(busy, 17);
  {
    const InDirectory in(kSysfs);
    ASSERT_TRUE(in.entered);
    EXPECT_EQ(content_of("busy_percent"), "17\n");
    FILE* file = ::fopen("busy_percent", "r");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(std::fscanf(file, "%d", &busy), 1);
    std::fclose(file);
  }
  const UniqueFd directory(::open(kSysfs, O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(read_all(UniqueFd(::openat(directory.get(), "busy_percent", O_RDONLY)).get()), "17\n");
}

TEST(Attribute, OpenFileHasItsIdentity) {
  struct stat by_path, by_fd;
  const std::string path = std::string(kSysfs) + "/busy_percent";
  ASSERT_EQ(::stat(path.c_str(), &by_path), 0);
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fstat(fd.get(), &by_fd), 0);
  EXPECT_EQ(by_fd.st_dev, by_path.st_dev);
  EXPECT_EQ(by_fd.st_ino, by_path.st_ino);
  EXPECT_EQ(by_fd.st_mode, by_path.st_mode);
  EXPECT_EQ(::write(fd.get(), "1", 1), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST(Attribute, ReopenedStreamReadsIt) {
  FILE* stream = ::fopen("/dev/null", "r");
  stream = ::freopen((std::string(kSysfs) + "/busy_percent").c_str(), "r", stream);
  ASSERT_NE(stream, nullptr);
  int busy = 0;
  EXPECT_EQ(std::fscanf(stream, "%d", &busy), 1);
  EXPECT_EQ(busy, 17);
  std::fclose(stream);
}

TEST(Attribute, NotEvenRootWritesWhatHasNoStore) {
  EXPECT_FALSE(UniqueFd(::open((std::string(kSysfs) + "/vendor").c_str(), O_WRONLY)));
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(::fopen((std::string(kSysfs) + "/vendor").c_str(), "w"), nullptr);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(content_of(std::string(kSysfs) + "/vendor"), "0x1022\n");
}

TEST(Attribute, ModulesListIsTheMachines) {
  EXPECT_NE(content_of("/proc/modules").find("amdxdna "), std::string::npos);
  EXPECT_EQ(content_of("/proc/modules").find("ext4"), std::string::npos);
}

TEST(Names, LinksAndRealPathsAreThoseOfTheMachine) {
  EXPECT_EQ(std::filesystem::read_symlink("/sys/class/accel/accel0"),
            "../../devices/pci0000:c0/0000:c3:00.0/accel/accel0");
  EXPECT_EQ(std::filesystem::canonical(kSysfs), kPci);
  char* allocated = ::realpath("/sys/dev/char/261:0/device", nullptr);
  ASSERT_NE(allocated, nullptr);
  EXPECT_STREQ(allocated, kPci);
  std::free(allocated);
  EXPECT_EQ(std::filesystem::canonical("/sys/bus/pci/devices/0000:c3:00.0"), kPci);
  EXPECT_EQ(std::filesystem::canonical("/sys/class/accel/accel0/../../../.."), "/sys/devices");
  char* missing = ::realpath("/sys/class/accel/accel7", nullptr);
  EXPECT_EQ(missing, nullptr);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Names, WorkingDirectoryIsCalledAsOnTheMachine) {
  const InDirectory in("/sys/class/accel/accel0");
  ASSERT_TRUE(in.entered);
  char name[128];
  ASSERT_NE(::getcwd(name, sizeof name), nullptr);
  EXPECT_EQ(std::string(name), std::string(kPci) + "/accel/accel0");
  EXPECT_EQ(std::filesystem::current_path(), std::string(kPci) + "/accel/accel0");
  EXPECT_EQ(::getcwd(name, 8), nullptr);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(content_of("dev"), "261:0\n");
  EXPECT_EQ(content_of("device/vendor"), "0x1022\n");
}

TEST(Names, DescriptorsAreNamedByTheirNodes) {
  const UniqueFd fd = open_node();
  char name[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
  ASSERT_EQ(::readlink(link.c_str(), name, sizeof name), static_cast<ssize_t>(sizeof kNode - 1));
  EXPECT_STREQ(name, kNode);
  EXPECT_EQ(::readlink(link.c_str(), name, 4), 4);
  EXPECT_EQ(std::string(name, 4), "/dev");
}

TEST(Names, AccessAsksTheTree) {
  EXPECT_EQ(::access(kNode, R_OK | W_OK), 0);
  EXPECT_EQ(::faccessat(AT_FDCWD, kNode, R_OK, AT_EACCESS), 0);
  EXPECT_EQ(::euidaccess(kNode, R_OK), 0);
  EXPECT_EQ(::access("/dev/accel/accel1", F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(Directories, StreamsAndScansListTheMachine) {
  EXPECT_EQ(names_in("/dev/accel"), std::vector<std::string>{"accel0"});
  EXPECT_EQ(names_in("/sys/bus/pci/devices"), std::vector<std::string>{kTestPciAddress});
  dirent** entries = nullptr;
  const int count = ::scandir("/sys/class/accel", &entries, nullptr, alphasort);
  ASSERT_EQ(count, 3);  // with . and ..
  EXPECT_STREQ(entries[2]->d_name, "accel0");
  for (int i = 0; i < count; ++i) std::free(entries[i]);
  std::free(entries);
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/accel")) {
    EXPECT_TRUE(entry.is_character_file());
    found.push_back(entry.path());
  }
  EXPECT_EQ(found, std::vector<std::string>{kNode});
}

int nodes_walked = 0;

TEST(Directories, WalksNameWhatTheyFindAsOnTheMachine) {
  nodes_walked = 0;
  const auto visit = [](const char* path, const struct stat* info, int, FTW* where) {
    if (S_ISCHR(info->st_mode) && std::string(path) == kNode && std::string(path + where->base) == "accel0")
      ++nodes_walked;
    return 0;
  };
  ASSERT_EQ(::nftw("/dev/accel", visit, 8, FTW_PHYS), 0);
  EXPECT_EQ(nodes_walked, 1);
}

TEST(Directories, PatternsMatchTheMachine) {
  glob_t found{};
  ASSERT_EQ(::glob("/dev/accel/accel*", 0, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 1u);
  EXPECT_STREQ(found.gl_pathv[0], kNode);
  ::globfree(&found);
  ASSERT_EQ(::glob("/sys/class/accel/*/device/vendor", 0, nullptr, &found), 0);
  EXPECT_STREQ(found.gl_pathv[0], "/sys/class/accel/accel0/device/vendor");
  ::globfree(&found);
  EXPECT_EQ(::glob("/dev/dri/*", 0, nullptr, &found), GLOB_NOMATCH);
}

}  // namespace
}  // namespace understudy::test
