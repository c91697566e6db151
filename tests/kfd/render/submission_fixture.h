// Command submissions: a context, a page of indirect buffer at kIb, and a buffer of data at kData.
#pragma once

#include <initializer_list>
#include <span>
#include <thread>

#include "tests/kfd/render/render_fixture.h"

namespace understudy::kfd {

inline constexpr std::uint64_t kIb = kVa;
inline constexpr std::uint64_t kData = kVa + kMiB;
inline constexpr std::uint64_t kDataBytes = 4 * kPage;
inline constexpr std::uint64_t kForEver = ~std::uint64_t{0};

inline std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
inline std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

class SubmissionTest : public RenderTest {
 protected:
  explicit SubmissionTest(const std::string& profile = "gfx90a") : RenderTest(profile) {
    ib_bo_ = static_cast<std::uint32_t>(create_bo(kPage));
    data_bo_ = static_cast<std::uint32_t>(create_bo(kDataBytes));
    EXPECT_EQ(map_va(ib_bo_, kIb, kPage), 0);
    EXPECT_EQ(map_va(data_bo_, kData, kDataBytes), 0);
    ib_ = reinterpret_cast<std::uint32_t*>(map_cpu(ib_bo_, kPage));
    data_ = map_cpu(data_bo_, kDataBytes);
    context_ = static_cast<std::uint32_t>(make_context());
  }
  ~SubmissionTest() override {
    ::munmap(ib_, kPage);
    ::munmap(data_, kDataBytes);
  }

  // A chunk, as user space lays it out.
  template <typename T>
  static uapi::amdgpu::drm_amdgpu_cs_chunk chunk(std::uint32_t id, const T& data, std::size_t count = 1) {
    return {id, static_cast<std::uint32_t>(sizeof(T) * count / 4), reinterpret_cast<std::uint64_t>(&data)};
  }
  using Chunks = std::vector<uapi::amdgpu::drm_amdgpu_cs_chunk>;

  // Writes packets to the indirect buffer and describes it.
  uapi::amdgpu::drm_amdgpu_cs_chunk_ib write_ib(std::initializer_list<std::uint32_t> packets,
                                                std::uint32_t ip_type = uapi::amdgpu::AMDGPU_HW_IP_DMA) {
    std::copy(packets.begin(), packets.end(), ib_);
    uapi::amdgpu::drm_amdgpu_cs_chunk_ib ib{};
    ib.va_start = kIb;
    ib.ib_bytes = static_cast<std::uint32_t>(packets.size() * 4);
    ib.ip_type = ip_type;
    return ib;
  }

  // A sequence number, or -errno.
  std::int64_t submit(const Chunks& chunks, std::uint32_t bo_list = 0) {
    auto call = start_submit(chunks, bo_list);
    const int result = call->wait();
    return result < 0 ? result : static_cast<std::int64_t>(cs_args_.out.handle);
  }
  std::shared_ptr<test::TestCall> start_submit(const Chunks& chunks, std::uint32_t bo_list = 0) {
    chunks_ = chunks;
    pointers_.clear();
    for (const auto& chunk : chunks_) pointers_.push_back(reinterpret_cast<std::uint64_t>(&chunk));
    cs_args_ = {};
    cs_args_.in = {context_, bo_list, static_cast<std::uint32_t>(chunks_.size()), 0,
                   reinterpret_cast<std::uint64_t>(pointers_.data())};
    return client_.start(file_, uapi::amdgpu::Cs::kCmd, reinterpret_cast<std::uint64_t>(&cs_args_));
  }
  std::int64_t submit_ib(const uapi::amdgpu::drm_amdgpu_cs_chunk_ib& ib) {
    return submit({chunk(uapi::amdgpu::AMDGPU_CHUNK_ID_IB, ib)});
  }
  // 0: done, 1: not yet, or -errno.
  int wait_cs(std::uint64_t sequence, std::uint64_t timeout = kForEver,
              std::uint32_t ip_type = uapi::amdgpu::AMDGPU_HW_IP_DMA) {
    uapi::amdgpu::drm_amdgpu_wait_cs args{};
    args.in.handle = sequence;
    args.in.timeout = timeout;
    args.in.ip_type = ip_type;
    args.in.ctx_id = context_;
    const int result = client_.ioctl<uapi::amdgpu::WaitCs>(file_, args);
    return result < 0 ? result : static_cast<int>(args.out.status);
  }
  // Packets that wait until the last dword of the data is 1.
  uapi::amdgpu::drm_amdgpu_cs_chunk_ib write_gate() {
    constexpr std::uint32_t kPollMemoryUntilEqual = 8 | 1u << 31 | 3u << 28;
    return write_ib({kPollMemoryUntilEqual, low(kGate), high(kGate), 1, 0xffffffff, 0x0fff0001});
  }
  void open_gate() {
    const std::uint32_t one = 1;
    std::memcpy(data_ + (kGate - kData), &one, sizeof one);
  }
  // Lets waiting buffers look again until `done`.
  template <typename Done>
  void advance_until(Done done) {
    while (!done()) {
      clock_->advance(200'000);
      std::this_thread::yield();
    }
  }
  drm::FenceRef fence(std::uint64_t sequence, std::uint32_t ip_type = uapi::amdgpu::AMDGPU_HW_IP_DMA) {
    return amdgpu(file_).contexts().find(context_)->fence({ip_type, 0, 0}, sequence).value();
  }

  static constexpr std::uint64_t kGate = kData + kDataBytes - 4;
  std::uint32_t ib_bo_ = 0;
  std::uint32_t data_bo_ = 0;
  std::uint32_t* ib_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint32_t context_ = 0;
  Chunks chunks_;
  std::vector<std::uint64_t> pointers_;
  uapi::amdgpu::drm_amdgpu_cs cs_args_{};
};

}  // namespace understudy::kfd
