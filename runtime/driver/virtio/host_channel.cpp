#include "runtime/driver/virtio/host_channel.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace hsa_rt::virtio {
namespace {

using Header = later::vdrm_ccmd_req;
using SharedHeader = later::vhsakmt_shmem;
using EarlierMemoryRequest = vhsakmt::vhsakmt_ccmd_memory_req;
using EarlierMemoryAnswer = vhsakmt::vhsakmt_ccmd_memory_rsp;
using EarlierQueueAnswer = vhsakmt::vhsakmt_ccmd_queue_rsp;

// Room for the longest answer there is: the caches of a large GPU.
constexpr uint64_t kSharedBytes =
    (sizeof(SharedHeader) + sizeof(QueryAnswer) +
     later::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_CACHE_PROP * sizeof(vhsakmt::HsaCacheProperties) + kPageBytes -
     1) /
    kPageBytes * kPageBytes;

// Every answer starts so.
struct AnswerHeader {
  uint32_t length;
  int32_t ret;
};

// `ret` is a status of the host's library, or a negative errno of the host's renderer.
Result<void> verdict(int32_t ret) {
  switch (ret) {
    case vhsakmt::HSAKMT_STATUS_SUCCESS:
      return {};
    case vhsakmt::HSAKMT_STATUS_INVALID_PARAMETER:
    case vhsakmt::HSAKMT_STATUS_INVALID_HANDLE:
      return Errno{EINVAL};
    case vhsakmt::HSAKMT_STATUS_INVALID_NODE_UNIT:
      return Errno{ENODEV};
    case vhsakmt::HSAKMT_STATUS_NO_MEMORY:
    case vhsakmt::HSAKMT_STATUS_OUT_OF_RESOURCES:
      return Errno{ENOMEM};
    case vhsakmt::HSAKMT_STATUS_NOT_IMPLEMENTED:
    case vhsakmt::HSAKMT_STATUS_NOT_SUPPORTED:
    case -ENOSYS:
      return Errno{EOPNOTSUPP};
    case vhsakmt::HSAKMT_STATUS_UNAVAILABLE:
      return Errno{EBUSY};
    default:
      return Errno{ret < 0 ? -ret : EIO};
  }
}

template <class Struct>
std::vector<std::byte> bytes_of(const Struct& request, std::span<const uint32_t> payload = {}) {
  constexpr size_t kAlignment = 8;
  const size_t length = sizeof(request) + payload.size_bytes();
  std::vector<std::byte> bytes((length + kAlignment - 1) / kAlignment * kAlignment);
  std::memcpy(bytes.data(), &request, sizeof(request));
  std::ranges::copy(std::as_bytes(payload), bytes.begin() + sizeof(request));
  return bytes;
}

// The arguments stand at the same place in both layouts, what follows them does not.
EarlierMemoryRequest in_earlier_layout(const MemoryRequest& request) {
  EarlierMemoryRequest earlier{};
  std::memcpy(static_cast<void*>(&earlier), &request, offsetof(EarlierMemoryRequest, blob_id));
  earlier.blob_id = request.blob_id;
  earlier.type = request.type;
  earlier.res_id = request.res_id;
  return earlier;
}

// The first `length` bytes of an answer are on the wire.
template <class Answer>
std::span<std::byte> first_bytes(Answer& answer, size_t length) {
  return std::as_writable_bytes(std::span(&answer, 1)).first(length);
}

}  // namespace

HostChannel::HostChannel(VirtioFile& file, VirtioFile::Blob shared_pages, Mapping mapping)
    : file_(file), shared_pages_(std::move(shared_pages)), mapping_(std::move(mapping)) {}

Result<std::unique_ptr<HostChannel>> HostChannel::open(VirtioFile& file) {
  VirtioFile::Blob blob =
      TRY(file.create_host_blob(vhsakmt::shmem::kBlobId, kSharedBytes, /*mappable=*/true));
  const uint64_t offset = TRY(file.mmap_offset(*blob.gem));
  Mapping mapping = TRY(Mapping::map_file(kSharedBytes, PROT_READ | PROT_WRITE, file.fd(), offset));
  std::unique_ptr<HostChannel> channel(new HostChannel(file, std::move(blob), std::move(mapping)));
  TRY(channel->find_layout());
  return channel;
}

// Asks for node 0's available memory with the type at both places; the length of the answer tells which one
// the host looked at. Whether the node has any does not matter.
Result<void> HostChannel::find_layout() {
  EarlierMemoryRequest earlier{};
  earlier.type = vhsakmt::VHSAKMT_CCMD_MEMORY_AVAIL_MEM;
  MemoryRequest request{};
  std::memcpy(static_cast<void*>(&request), &earlier, sizeof(earlier));
  request.type = vhsakmt::VHSAKMT_CCMD_MEMORY_AVAIL_MEM;
  MemoryAnswer answer{};
  TRY(exchange(vhsakmt::VHSAKMT_CCMD_MEMORY, bytes_of(request), first_bytes(answer, sizeof(answer))));
  if (answer.hdr.len != sizeof(answer) && answer.hdr.len != sizeof(EarlierMemoryAnswer)) return Errno{EPROTO};
  later_ = answer.hdr.len == sizeof(answer);
  return {};
}

uint32_t HostChannel::most_caches() const {
  return later_ ? later::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_CACHE_PROP
                : vhsakmt::VHSAKMT_CCMD_QUERY_MAX_GET_NOD_CACHE_PROP;
}

Result<void> HostChannel::query(const QueryRequest& request, QueryAnswer& answer,
                                std::span<std::byte> elements) {
  std::vector<std::byte> bytes(sizeof(QueryAnswer) + elements.size());
  TRY(exchange(vhsakmt::VHSAKMT_CCMD_QUERY_INFO, bytes_of(request), bytes));
  std::memcpy(static_cast<void*>(&answer), bytes.data(), sizeof(answer));
  TRY(verdict(answer.ret));
  std::copy_n(bytes.begin() + sizeof(answer), elements.size(), elements.begin());
  return {};
}

Result<void> HostChannel::memory(const MemoryRequest& request, MemoryAnswer& answer,
                                 std::span<const uint32_t> payload) {
  std::vector<std::byte> bytes =
      later_ ? bytes_of(request, payload) : bytes_of(in_earlier_layout(request), payload);
  TRY(exchange(vhsakmt::VHSAKMT_CCMD_MEMORY, std::move(bytes),
               first_bytes(answer, later_ ? sizeof(answer) : sizeof(EarlierMemoryAnswer))));
  return verdict(answer.ret);
}

Result<void> HostChannel::queue(const QueueRequest& request, QueueAnswer& answer,
                                std::span<const uint32_t> payload) {
  TRY(exchange(vhsakmt::VHSAKMT_CCMD_QUEUE, bytes_of(request, payload),
               first_bytes(answer, later_ ? sizeof(answer) : sizeof(EarlierQueueAnswer))));
  return verdict(answer.ret);
}

Result<void> HostChannel::exchange(uint32_t command, std::vector<std::byte> request,
                                   std::span<std::byte> answer) {
  const std::lock_guard guard(lock_);
  if (broken_) return Errno{EIO};
  Header header{};
  header.cmd = command;
  header.len = static_cast<uint32_t>(request.size());
  header.seqno = ++seqno_;
  std::memcpy(request.data(), &header, sizeof(header));

  auto* const shared = static_cast<SharedHeader*>(mapping_.address());
  if (shared->base.rsp_mem_offset > kSharedBytes ||
      answer.size() > kSharedBytes - shared->base.rsp_mem_offset) {
    return Errno{EPROTO};
  }
  std::byte* const slot = static_cast<std::byte*>(mapping_.address()) + shared->base.rsp_mem_offset;
  // A command the host does not know may be left without an answer.
  const AnswerHeader unanswered{static_cast<uint32_t>(answer.size()), -ENOSYS};
  std::memset(slot, 0, answer.size());
  std::memcpy(slot, &unanswered, sizeof(unanswered));
  Result<void> submitted = file_.submit(request, *shared_pages_.gem);
  // The number moves when a command is done; a host that stopped before will not come back to it.
  const uint32_t reached = std::atomic_ref(shared->base.seqno).load(std::memory_order_acquire);
  if (submitted && reached != header.seqno) submitted = Errno{EIO};
  if (!submitted) {
    broken_ = true;
    return submitted.error();
  }
  std::memcpy(answer.data(), slot, answer.size());
  return {};
}

}  // namespace hsa_rt::virtio
