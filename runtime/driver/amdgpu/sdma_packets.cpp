#include "runtime/driver/amdgpu/sdma_packets.h"

namespace hsa_rt::amdgpu {
namespace {

enum Opcode : uint32_t {
  kCopy = 1,
  kFence = 5,
  kTrap = 6,
  kPollRegmem = 8,
  kAtomic = 10,
  kConstFill = 11,
  kTimestamp = 13,
  kCacheControl = 17,
};

constexpr uint32_t header(Opcode opcode, uint32_t sub_opcode = 0) {
  return opcode | sub_opcode << 8;
}

}  // namespace

SdmaVariant SdmaVariant::of(uint32_t gfx_version) {
  constexpr uint64_t kMax22Bits = 0x3fffff;
  constexpr uint64_t kMax30Bits = 0x3fffffff;
  SdmaVariant variant;
  const bool wide_count = gfx_version == 90010 || gfx_version >= 100300;
  variant.max_copy_bytes = wide_count ? kMax30Bits : kMax22Bits;
  variant.has_cache_control = gfx_version >= 100000;
  variant.fence_memory_type = gfx_version >= 100000 ? 3 : 0;
  return variant;
}

void SdmaWriter::copy_linear(uint64_t destination, uint64_t source, uint64_t size_bytes) {
  put(header(kCopy));
  put(static_cast<uint32_t>(size_bytes - 1));
  put(0);
  put_address(source);
  put_address(destination);
}

void SdmaWriter::fill(uint64_t destination, uint32_t value, uint64_t size_bytes) {
  constexpr uint32_t kDwordElements = 2u << 30;
  put(header(kConstFill) | kDwordElements);
  put_address(destination);
  put(value);
  put(static_cast<uint32_t>(size_bytes - 4));
}

void SdmaWriter::wait_until_zero(uint64_t address) {
  constexpr uint32_t kInMemory = 1u << 31;
  constexpr uint32_t kEqual = 3u << 28;
  constexpr uint32_t kIntervalAndForever = 0x04 | 0xfffu << 16;
  put(header(kPollRegmem) | kInMemory | kEqual);
  put_address(address);
  put(0);           // reference
  put(0xffffffff);  // mask
  put(kIntervalAndForever);
}

void SdmaWriter::fence(uint64_t address, uint32_t value) {
  put(header(kFence) | variant_.fence_memory_type << 16);
  put_address(address);
  put(value);
}

void SdmaWriter::atomic_add64(uint64_t address, int64_t addend) {
  constexpr uint32_t kAdd64 = 47u << 25;
  put(header(kAtomic) | kAdd64);
  put_address(address);
  put_address(static_cast<uint64_t>(addend));
  put_address(0);  // compare value, unused by an add
  put(0);          // loop interval
}

void SdmaWriter::timestamp(uint64_t address) {
  constexpr uint32_t kGetGlobal = 2;
  put(header(kTimestamp, kGetGlobal));
  put_address(address);
}

void SdmaWriter::trap(uint32_t event_id) {
  put(header(kTrap));
  put(event_id & 0xfffffff);
}

// A register poll with nothing to compare: what the firmware takes as "flush the host data path".
void SdmaWriter::flush_hdp() {
  put(header(kPollRegmem));
  put(0);
  put(0x80000000);
  put(0);
  put(0);
  put(0);
}

void SdmaWriter::invalidate_caches() {
  constexpr uint32_t kGl2 = 1u << 14, kGl1 = 1u << 9, kVector = 1u << 8, kScalar = 1u << 7,
                     kMetadata = 1u << 5;
  cache_control(kGl2 | kGl1 | kVector | kScalar | kMetadata);
}

void SdmaWriter::write_back_caches() {
  constexpr uint32_t kGl2WriteBack = 1u << 15;
  cache_control(kGl2WriteBack);
}

void SdmaWriter::cache_control(uint32_t control) {
  if (!variant_.has_cache_control) return;
  constexpr uint32_t kRequest = 1;
  put(header(kCacheControl, kRequest));
  put(0);  // from address 0 to 0: everything
  put((control & 0xffff) << 16);
  put(control >> 16);
  put(0);
}

}  // namespace hsa_rt::amdgpu
