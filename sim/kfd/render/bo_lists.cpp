#include "sim/kfd/render/bo_lists.h"

#include <algorithm>

#include "sim/kfd/amdgpu_file.h"

namespace understudy::kfd {

using namespace uapi::amdgpu;

namespace {

constexpr std::uint32_t kMaxEntries = 128 * 1024;  // AMDGPU_BO_LIST_MAX_ENTRIES

}  // namespace

Result<std::vector<drm_amdgpu_bo_list_entry>> read_bo_list_entries(Call& call,
                                                                   const drm_amdgpu_bo_list_in& in) {
  if (in.bo_number > kMaxEntries) return Errno(EINVAL);
  if (in.bo_info_size == sizeof(drm_amdgpu_bo_list_entry)) {
    return call.memory().read_array<drm_amdgpu_bo_list_entry>(in.bo_info_ptr, in.bo_number);
  }
  std::vector<drm_amdgpu_bo_list_entry> entries(in.bo_number);
  const std::size_t bytes = std::min<std::size_t>(in.bo_info_size, sizeof(drm_amdgpu_bo_list_entry));
  for (std::uint32_t i = 0; i < in.bo_number; ++i) {
    TRY(call.memory().read(in.bo_info_ptr + std::uint64_t{i} * in.bo_info_size,
                           std::as_writable_bytes(std::span(&entries[i], 1)).first(bytes)));
  }
  return entries;
}

Result<ListedBos> make_bo_list(AmdgpuFile& file, Call& call,
                               const std::vector<drm_amdgpu_bo_list_entry>& entries) {
  ListedBos list;
  for (const drm_amdgpu_bo_list_entry& entry : entries) {
    BoRef bo = TRY(file.lookup_bo(entry.bo_handle));
    if (bo->is_userptr() && bo->spec().user_client != call.caller().client) return Errno(EPERM);
    list.push_back(std::move(bo));
  }
  return list;
}

std::uint32_t BoLists::add(ListedBos list) {
  const std::lock_guard lock(mutex_);
  std::uint32_t handle = 1;
  for (const auto& [taken, bos] : lists_) {
    if (taken != handle) break;
    ++handle;
  }
  lists_[handle] = std::make_shared<const ListedBos>(std::move(list));
  return handle;
}

Result<std::shared_ptr<const ListedBos>> BoLists::find(std::uint32_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(handle);
  if (found == lists_.end()) return Errno(ENOENT);
  return found->second;
}

Result<void> BoLists::replace(std::uint32_t handle, ListedBos list) {
  std::shared_ptr<const ListedBos> old;
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(handle);
  if (found == lists_.end()) return Errno(ENOENT);
  old = std::exchange(found->second, std::make_shared<const ListedBos>(std::move(list)));
  return {};
}

void BoLists::remove(std::uint32_t handle) {
  Lists::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = lists_.extract(handle);
}

void BoLists::clear() {
  Lists removed;
  const std::lock_guard lock(mutex_);
  removed.swap(lists_);
}

Outcome AmdgpuFile::bo_list(Call& call, drm_amdgpu_bo_list& args) {
  const drm_amdgpu_bo_list_in in = args.in;
  // The entries are read whatever the operation is.
  const auto entries = TRY(read_bo_list_entries(call, in));
  std::uint32_t handle = in.list_handle;
  switch (in.operation) {
    case AMDGPU_BO_LIST_OP_CREATE:
      handle = bo_lists_.add(TRY(make_bo_list(*this, call, entries)));
      break;
    case AMDGPU_BO_LIST_OP_DESTROY:
      bo_lists_.remove(in.list_handle);
      handle = 0;
      break;
    case AMDGPU_BO_LIST_OP_UPDATE:
      TRY(bo_lists_.replace(in.list_handle, TRY(make_bo_list(*this, call, entries))));
      break;
    default:
      return Errno(EINVAL);
  }
  args = {};
  args.out.list_handle = handle;
  return 0;
}

}  // namespace understudy::kfd
