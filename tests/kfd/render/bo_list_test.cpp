// BO_LIST. Expected values: facts/kfd.md D.5, amdgpu_bo_list.c.
#include <array>
#include <vector>

#include "tests/kfd/render/render_fixture.h"
#include "tests/support/child_process.h"

namespace understudy::kfd {
namespace {

using namespace uapi::amdgpu;

class RenderBoList : public RenderTest {
 protected:
  // A handle, or -errno.
  int bo_list(std::uint32_t operation, std::uint32_t handle,
              const std::vector<drm_amdgpu_bo_list_entry>& entries) {
    return raw(operation, handle, reinterpret_cast<std::uint64_t>(entries.data()),
               static_cast<std::uint32_t>(entries.size()), sizeof(drm_amdgpu_bo_list_entry));
  }
  int raw(std::uint32_t operation, std::uint32_t handle, std::uint64_t address, std::uint32_t count,
          std::uint32_t stride) {
    drm_amdgpu_bo_list args{};
    args.in = {operation, handle, count, stride, address};
    const int result = client_.ioctl<BoList>(file_, args);
    return result < 0 ? result : static_cast<int>(args.out.list_handle);
  }
  std::size_t length(std::uint32_t handle) { return amdgpu(file_).bo_lists().find(handle).value()->size(); }
};

TEST_F(RenderBoList, CreateUpdateDestroy) {
  const auto a = static_cast<std::uint32_t>(create_bo(kPage));
  const auto b = static_cast<std::uint32_t>(create_bo(kPage));
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_CREATE, 0, {{a, 0}, {b, 32}}), 1);
  EXPECT_EQ(length(1), 2u);
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_CREATE, 0, {}), 2);
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_UPDATE, 1, {{b, 0}}), 1);
  EXPECT_EQ(length(1), 1u);
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_DESTROY, 1, {}), 0);
  EXPECT_FALSE(amdgpu(file_).bo_lists().find(1));
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_CREATE, 0, {}), 1) << "the lowest free number";
}

TEST_F(RenderBoList, UnknownListsAndBos) {
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_CREATE, 0, {{kNoSuchHandle, 0}}), -ENOENT);
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_UPDATE, kNoSuchHandle, {}), -ENOENT);
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_DESTROY, kNoSuchHandle, {}), 0) << "no error in the driver";
  EXPECT_EQ(bo_list(AMDGPU_BO_LIST_OP_DESTROY, 1, {{kNoSuchHandle, 0}}), 0) << "its BOs are not looked at";
  EXPECT_EQ(bo_list(77, 0, {{kNoSuchHandle, 0}}), -EINVAL);
}

TEST_F(RenderBoList, EntriesAreReadWhateverTheOperation) {
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_CREATE, 0, kBadPointer, 1, 8), -EFAULT);
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_DESTROY, 0, kBadPointer, 1, 8), -EFAULT);
  EXPECT_EQ(raw(77, 0, kBadPointer, 1, 8), -EFAULT);
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_CREATE, 0, kBadPointer, 128 * 1024 + 1, 8), -EINVAL);
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_CREATE, 0, kBadPointer, 0, 8), 1);
}

TEST_F(RenderBoList, TheStrideIsTheCallers) {
  const auto a = static_cast<std::uint32_t>(create_bo(kPage));
  const std::array<std::uint32_t, 2> narrow = {a, a};
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_CREATE, 0, reinterpret_cast<std::uint64_t>(narrow.data()), 2, 4), 1);
  const std::array<std::uint32_t, 8> wide = {a, 0, kNoSuchHandle, kNoSuchHandle, a, 0, 0, 0};
  EXPECT_EQ(raw(AMDGPU_BO_LIST_OP_CREATE, 0, reinterpret_cast<std::uint64_t>(wide.data()), 2, 16), 2);
  EXPECT_EQ(length(2), 2u);
}

TEST_F(RenderBoList, UserPagesOfAnotherProcessAreEperm) {
  const UserPages pages(kPage);
  const auto userptr =
      static_cast<std::uint32_t>(create_userptr(pages.address(), kPage, AMDGPU_GEM_USERPTR_REGISTER));
  test::SharedMemory memory;
  struct Arguments {
    drm_amdgpu_bo_list list;
    drm_amdgpu_bo_list_entry entry;
  };
  Arguments& arguments = memory.put(Arguments{{}, {userptr, 0}});
  arguments.list.in = {AMDGPU_BO_LIST_OP_CREATE, 0, 1, sizeof(drm_amdgpu_bo_list_entry),
                       reinterpret_cast<std::uint64_t>(&arguments.entry)};
  const test::ChildProcess child;
  test::TestClient other(machine_, child.pid());
  EXPECT_EQ(other.ioctl<BoList>(file_, arguments.list), -EPERM);
  EXPECT_EQ(client_.ioctl<BoList>(file_, arguments.list), 0);
}

}  // namespace
}  // namespace understudy::kfd
