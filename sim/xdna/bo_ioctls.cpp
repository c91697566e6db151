// CREATE_BO, GET_BO_INFO, SYNC_BO. Mirrors amdxdna_gem.c: amdxdna_drm_create_bo_ioctl,
// amdxdna_drm_get_bo_info_ioctl, amdxdna_drm_sync_bo_ioctl, and amdxdna_ubuf.c for pinned user memory.
#include <linux/capability.h>
#include <sys/resource.h>

#include <algorithm>

#include "sim/core/vma.h"
#include "sim/xdna/hwctx.h"
#include "sim/xdna/xdna_file.h"

namespace understudy::xdna {
namespace {

using namespace uapi::amdxdna;

constexpr std::uint64_t kPageBytes = 4096;
// A table longer than this could only describe more than any process's address space.
constexpr std::uint32_t kMaxVaEntries = 1 << 20;

std::uint64_t page_align(std::uint64_t size_bytes) {
  return (size_bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

// RLIMIT_MEMLOCK of the client; CAP_IPC_LOCK lifts it.
std::uint64_t memory_lock_limit_bytes(const Client& client) {
  if (client.has_capability(CAP_IPC_LOCK)) return RLIM_INFINITY;
  rlimit limit{};
  if (::prlimit(client.pid(), RLIMIT_MEMLOCK, nullptr, &limit) != 0) return 0;
  return limit.rlim_cur;
}

}  // namespace

Outcome XdnaFile::create_bo(Call& call, amdxdna_drm_create_bo& args) {
  if (args.flags != 0) return Errno(EINVAL);
  if (npu().flavour() == DriverFlavour::kFirst && (args.vaddr != 0 || args.size == 0)) return Errno(EINVAL);
  XdnaBoRef bo;
  switch (args.type) {
    case AMDXDNA_BO_CMD:
    case AMDXDNA_BO_SHARE: {
      constexpr std::uint64_t kFirstCommandMax = 32 * 1024;
      if (npu().flavour() == DriverFlavour::kFirst && args.type == AMDXDNA_BO_CMD &&
          (args.size < 4 || args.size > kFirstCommandMax)) {
        return Errno(EINVAL);
      }
      bo = TRY(make_bo(call, args, BoType::kShare));
      if (args.type == AMDXDNA_BO_CMD) bo->mark_internal();
      break;
    }
    case AMDXDNA_BO_DEV_HEAP:
      if (args.size == 0 || args.size % DeviceHeap::kChunkBytes != 0) return Errno(EINVAL);
      if (npu().flavour() == DriverFlavour::kFirst && !heap_->empty()) return Errno(EBUSY);
      bo = TRY(make_bo(call, args, BoType::kHeap));
      TRY(heap_->add_chunk(bo));
      break;
    case AMDXDNA_BO_DEV:
      bo = TRY(make_dev_bo(args));
      break;
    default:
      return Errno(EINVAL);
  }
  args.handle = static_cast<std::uint32_t>(TRY(handles().create(&call, bo)));
  return 0;
}

Result<XdnaBoRef> XdnaFile::make_bo(Call& call, const amdxdna_drm_create_bo& args, BoType type) {
  if (args.vaddr != 0) return make_from_va_table(call, args.vaddr, type);
  const std::uint64_t size_bytes = page_align(args.size);
  // The fake-offset manager refuses zero pages; sizes beyond the address space fail there as well.
  if (size_bytes == 0 || size_bytes >> 47 != 0) return Errno(ENOSPC);
  return std::make_shared<XdnaBo>(npu(), type, size_bytes, Buffer::create("amdxdna", size_bytes));
}

Result<XdnaBoRef> XdnaFile::make_dev_bo(const amdxdna_drm_create_bo& args) {
  const std::uint64_t size_bytes = page_align(args.size);
  if (size_bytes == 0 || size_bytes < args.size) return Errno(EINVAL);
  const bool is_first = npu().flavour() == DriverFlavour::kFirst;
  if (is_first && heap_->empty()) return Errno(EINVAL);
  auto bo = std::make_shared<XdnaBo>(npu(), BoType::kDev, size_bytes, nullptr);
  TRY(heap_->place(*bo));
  return bo;
}

Result<XdnaBoRef> XdnaFile::make_from_va_table(Call& call, std::uint64_t va_table, BoType type) {
  // The driver answers an unreadable table with EINVAL, not EFAULT.
  amdxdna_drm_va_tbl table;
  if (!call.memory().read(va_table, std::as_writable_bytes(std::span(&table, 1)))) return Errno(EINVAL);
  if (table.num_entries > 0) return pin_user_pages(call, va_table + sizeof table, table.num_entries, type);
  const DmaBufRef dma_buf = TRY(call.machine().dmabufs().of_client_fd(call.client(), table.dmabuf_fd));
  // Always a new object: this import does not go through the PRIME handle cache.
  auto bo = std::make_shared<XdnaBo>(npu(), type, dma_buf->size_bytes(), dma_buf->buffer());
  bo->set_imported_from(dma_buf);
  return bo;
}

Result<XdnaBoRef> XdnaFile::pin_user_pages(Call& call, std::uint64_t entries_address, std::uint32_t count,
                                           BoType type) {
  Client& client = call.client();
  const std::uint64_t limit_bytes = memory_lock_limit_bytes(client);
  if (limit_bytes == 0) return Errno(EPERM);
  if (count > kMaxVaEntries) return Errno(EINVAL);
  const auto entries = call.memory().read_array<amdxdna_drm_va_entry>(entries_address, count);
  if (!entries) return Errno(EINVAL);
  UserPages pages;
  pages.client = call.caller().client;
  std::uint64_t total_bytes = 0;
  for (const amdxdna_drm_va_entry& entry : entries.value()) {
    if (entry.vaddr % kPageBytes != 0 || entry.len % kPageBytes != 0 || entry.len == 0) return Errno(EINVAL);
    if (__builtin_add_overflow(total_bytes, entry.len, &total_bytes)) return Errno(EINVAL);
    pages.ranges.push_back({entry.vaddr, entry.len});
  }
  if (total_bytes > limit_bytes) return Errno(ENOMEM);
  for (const UserPages::Range& range : pages.ranges) {
    // Fewer pages pinned than asked for.
    if (!check_user_range(client, range.address, range.size_bytes, false)) return Errno(ENOMEM);
    if (!check_user_range(client, range.address, range.size_bytes, true)) pages.read_only = true;
  }
  auto bo = std::make_shared<XdnaBo>(npu(), type, total_bytes, nullptr);
  bo->set_user_pages(std::move(pages));
  return bo;
}

Outcome XdnaFile::get_bo_info(Call&, amdxdna_drm_get_bo_info& args) {
  if (args.ext != 0 || args.ext_flags != 0 || args.pad != 0) return Errno(EINVAL);
  const XdnaBoRef bo = TRY(lookup_bo(args.handle));
  if (bo->type() == BoType::kDev) {
    args.map_offset = kInvalidAddress;
    args.vaddr = heap_->client_address(bo->device_address());
    args.xdna_addr = bo->device_address();
    return 0;
  }
  args.map_offset = bo->user_pages() ? 0 : bo->mmap_offset_bytes();
  args.vaddr = bo->mapped_address();
  args.xdna_addr = bo->type() == BoType::kHeap ? bo->device_address() : args.vaddr;
  return 0;
}

Outcome XdnaFile::sync_bo(Call&, amdxdna_drm_sync_bo& args) {
  const XdnaBoRef bo = TRY(lookup_bo(args.handle));
  const DriverFlavour flavour = npu().flavour();
  if (flavour == DriverFlavour::kMainline && bo->imported_from()) return Errno(EOPNOTSUPP);
  if (bo->type() != BoType::kDev) {
    std::uint64_t end = 0;
    if (args.offset >= bo->size_bytes() || __builtin_add_overflow(args.offset, args.size, &end))
      return Errno(EINVAL);
  }
  // Memory is coherent here: nothing to flush. What is left is the debug-buffer sync that follows the flush.
  if (args.direction != SYNC_DIRECT_FROM_DEVICE) return 0;
  if (flavour == DriverFlavour::kFirst || flavour == DriverFlavour::kLegacy) return 0;
  const std::shared_ptr<HwContext> assigned = context(bo->assigned_context());
  if (!assigned) return Errno(EINVAL);
  // It travels through the context's queue and takes a sequence number.
  (void)assigned->submit(Job{nullptr, {bo}, 0, nullptr});
  return 0;
}

}  // namespace understudy::xdna
