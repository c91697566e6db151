// Every ioctl of the NPU's node with arguments no program in its right mind passes. The rows come from the
// uapi descriptors, so that a new ioctl is in it from its first day. What matters: an errno, nothing left in
// the ledger, and a device that still works.
#include <array>
#include <string>

#include "tests/xdna/npu_fixture.h"

namespace understudy::xdna {
namespace {

constexpr std::size_t kMaxArgumentBytes = 256;

bool is_plain_number(const uapi::FieldDescriptor& field) {
  return field.nested == nullptr && field.count == 1 && field.element_size <= 8;
}

class HostileTest : public NpuTest {
 protected:
  int call(const FileRef& file, const uapi::IoctlDescriptor& row, std::span<std::byte> arguments) {
    return client_.ioctl(file, row.cmd, arguments.data());
  }
  std::size_t live_objects() { return machine_.ledger().live().size(); }
  void expect_a_working_device() {
    const int handle = create_bo(uapi::amdxdna::AMDXDNA_BO_SHARE, 4096);
    ASSERT_GT(handle, 0);
    EXPECT_EQ(close_bo(static_cast<std::uint32_t>(handle)), 0);
  }

  // Every field of every ioctl, one at a time, with everything else zero.
  template <typename Visit>
  void for_each_field(Visit visit) {
    for (const uapi::IoctlDescriptor& row : uapi::amdxdna::ioctls()) {
      if (row.args == nullptr) continue;
      for (const uapi::FieldDescriptor& field : row.args->fields) {
        SCOPED_TRACE(std::string(row.name) + "." + field.name);
        visit(row, field);
      }
    }
  }
};

TEST_F(HostileTest, ArgumentThatIsNotThereIsEfault) {
  for (const uapi::IoctlDescriptor& row : uapi::amdxdna::ioctls()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(client_.ioctl(file_, row.cmd, reinterpret_cast<void*>(kBadPointer)), -EFAULT);
  }
  expect_a_working_device();
}

TEST_F(HostileTest, BadPointersFail) {
  const std::size_t before = live_objects();
  for_each_field([&](const uapi::IoctlDescriptor& row, const uapi::FieldDescriptor& field) {
    if (field.kind != uapi::FieldKind::kPointer) return;
    for (const std::uint64_t pointer : {kBadPointer, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
      std::array<std::byte, kMaxArgumentBytes> arguments{};
      // Sizes and counts that make the driver want what the pointer names.
      for (const uapi::FieldDescriptor& other : row.args->fields) {
        const bool says_how_much = other.kind == uapi::FieldKind::kSize ||
                                   std::string_view(other.name).find("num_") != std::string_view::npos ||
                                   std::string_view(other.name).find("count") != std::string_view::npos;
        if (says_how_much) arguments[other.offset] = std::byte{1};
      }
      // There is no context to list, but always a last error.
      if (row.nr == uapi::amdxdna::GetArray::kNr)
        arguments[0] = std::byte{uapi::amdxdna::DRM_AMDXDNA_HW_LAST_ASYNC_ERR};
      std::memcpy(arguments.data() + field.offset, &pointer, sizeof pointer);
      EXPECT_LT(call(file_, row, arguments), 0);
    }
  });
  EXPECT_EQ(live_objects(), before);
  expect_a_working_device();
}

TEST_F(HostileTest, NumbersUpToTheLargestLeaveNothingBehind) {
  const std::size_t before = live_objects();
  for_each_field([&](const uapi::IoctlDescriptor& row, const uapi::FieldDescriptor& field) {
    if (!is_plain_number(field)) return;
    for (const std::uint64_t value :
         {~std::uint64_t{0}, std::uint64_t{0x7fff'ffff}, std::uint64_t{0x8000'0000},
          std::uint64_t{0xffff'f000}, std::uint64_t{1} << 63}) {
      std::array<std::byte, kMaxArgumentBytes> arguments{};
      std::memcpy(arguments.data() + field.offset, &value, field.element_size);
      (void)call(file_, row, arguments);
    }
  });
  EXPECT_EQ(live_objects(), before);
  expect_a_working_device();
}

TEST_F(HostileTest, AllOnesFail) {
  for (const uapi::IoctlDescriptor& row : uapi::amdxdna::ioctls()) {
    SCOPED_TRACE(row.name);
    std::array<std::byte, kMaxArgumentBytes> arguments;
    arguments.fill(std::byte{0xff});
    EXPECT_LT(call(file_, row, arguments), 0);
  }
  expect_a_working_device();
}

// A handle that was closed, and one that is another file's.
TEST_F(HostileTest, HandlesThatAreNotTheFilesOwnFail) {
  using namespace uapi::amdxdna;
  const FileRef other = client_.open("accel/accel0");
  const int foreign = create_bo_in(other, AMDXDNA_BO_SHARE, 4096);
  const int closed = create_bo(AMDXDNA_BO_SHARE, 4096);
  ASSERT_EQ(closed, foreign) << "both files count from one";
  ASSERT_EQ(close_bo(static_cast<std::uint32_t>(closed)), 0);
  const auto handle = static_cast<std::uint32_t>(foreign);

  amdxdna_drm_get_bo_info info{};
  info.handle = handle;
  EXPECT_EQ(client_.ioctl<GetBoInfo>(file_, info), -ENOENT);
  amdxdna_drm_sync_bo sync{};
  sync.handle = handle;
  sync.size = 4096;
  EXPECT_EQ(client_.ioctl<SyncBo>(file_, sync), -ENOENT);
  amdxdna_drm_exec_cmd exec{};
  exec.cmd_handles = handle;
  exec.cmd_count = 1;
  EXPECT_EQ(client_.ioctl<ExecCmd>(file_, exec), -EINVAL);
  EXPECT_EQ(export_bo(handle), -ENOENT);
  EXPECT_EQ(close_bo(handle), -EINVAL);
  EXPECT_EQ(close_bo_in(other, handle), 0);
}

}  // namespace
}  // namespace understudy::xdna
