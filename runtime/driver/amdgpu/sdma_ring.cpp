#include "runtime/driver/amdgpu/sdma_ring.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace hsa_rt::amdgpu {
namespace {

// A job is written in pieces no larger than this, so that any job fits the ring.
constexpr size_t kPieceDwords = SdmaRing::kBytes / 4 / 8;

bool link_to_host_has_atomics(const DeviceInfo& info) {
  for (const LinkInfo& link : info.links) {
    if (link.node_to == info.nearest_cpu_node) return link.atomics_64bit;
  }
  return true;
}

}  // namespace

SdmaRing::SdmaRing(const Queue& queue, uint32_t gfx_version, const DeviceInfo& device)
    : queue_(queue),
      variant_(SdmaVariant::of(gfx_version)),
      has_atomics_(link_to_host_has_atomics(device)),
      writer_(variant_) {}

void SdmaRing::submit(const CopyJob& job) {
  const std::lock_guard guard(lock_);
  write_prologue(job);
  for (const CopySegment& segment : job.segments) {
    for (uint64_t done = 0; done < segment.size_bytes;) {
      if (writer_.dwords().size() >= kPieceDwords) flush_piece();
      done += write_chunk(segment, done, job.fill_value);
    }
  }
  write_epilogue(job);
  flush_piece();
  *queue_.doorbell = write_position_;
}

void SdmaRing::write_prologue(const CopyJob& job) {
  for (const uint64_t value_address : job.wait_for_zero) {
    // The engine compares 32 bits at a time: a 64-bit value is zero when its halves are, the upper one
    // first.
    if (writer_.dwords().size() >= kPieceDwords) flush_piece();
    writer_.wait_until_zero(value_address + 4);
    writer_.wait_until_zero(value_address);
  }
  if (job.completion.start_timestamp_address != 0) writer_.timestamp(job.completion.start_timestamp_address);
  writer_.flush_hdp();
  writer_.invalidate_caches();
}

uint64_t SdmaRing::write_chunk(const CopySegment& segment, uint64_t done,
                               std::optional<uint32_t> fill_value) {
  const uint64_t limit = fill_value ? SdmaWriter::kMaxFillBytes : variant_.max_copy_bytes;
  const uint64_t size = std::min(segment.size_bytes - done, limit);
  if (fill_value) {
    writer_.fill(segment.destination + done, *fill_value, size);
  } else {
    writer_.copy_linear(segment.destination + done, segment.source + done, size);
  }
  return size;
}

void SdmaRing::write_epilogue(const CopyJob& job) {
  writer_.write_back_caches();
  const CompletionTarget& target = job.completion;
  if (target.end_timestamp_address != 0) writer_.timestamp(target.end_timestamp_address);
  if (target.value_address != 0) {
    if (has_atomics_) {
      writer_.atomic_add64(target.value_address, -1);
    } else {
      // No atomics across this link: store what the value will be, upper half first.
      const auto* value = reinterpret_cast<const std::atomic<int64_t>*>(target.value_address);
      const uint64_t after = static_cast<uint64_t>(value->load(std::memory_order_relaxed) - 1);
      writer_.fence(target.value_address + 4, static_cast<uint32_t>(after >> 32));
      writer_.fence(target.value_address, static_cast<uint32_t>(after));
    }
  }
  if (target.mailbox_address != 0) {
    writer_.fence(target.mailbox_address, target.event_id);
    writer_.trap(target.event_id);
  }
}

void SdmaRing::flush_piece() {
  const std::vector<uint32_t>& dwords = writer_.dwords();
  const uint64_t bytes = dwords.size() * sizeof(uint32_t);
  const uint64_t at = write_position_ % kBytes;
  const uint64_t until_end = kBytes - at;
  const uint64_t padding =
      bytes > until_end ? until_end : 0;  // packets must not straddle the end of the ring
  while (write_position_ + padding + bytes - queue_.read_pointer->load(std::memory_order_acquire) > kBytes) {
    // The engine cannot make room for what it was not told of.
    *queue_.doorbell = write_position_;
    ::sched_yield();
  }
  auto* base = static_cast<std::byte*>(queue_.ring);
  std::memset(base + at, 0, padding);  // zero dwords are no-operations
  std::memcpy(base + (at + padding) % kBytes, dwords.data(), bytes);
  write_position_ += padding + bytes;
  queue_.write_pointer->store(write_position_, std::memory_order_release);
  writer_.clear();
}

}  // namespace hsa_rt::amdgpu
