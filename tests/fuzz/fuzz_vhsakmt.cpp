// The renderer of capset 8: a guest's context whose command stream is the input's: commands laid out by the
// vhsakmt descriptors, over a host with one GPU.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "tests/fuzz/machines.h"
#include "tests/fuzz/values.h"
#include "tests/virtio_gpu/rocm_guest.h"

namespace understudy::fuzz {
namespace {

namespace vhsa = uapi::vhsakmt;

constexpr unsigned kMaxSteps = 24;
constexpr std::size_t kMaxTailBytes = 256;

class Stream {
 public:
  explicit Stream(std::uint8_t variant)
      : guest_({.host = host_machine(), .request = "rocm,hostmem=1G", .strict = variant % 2 == 1}) {
    if (guest_.shmem == nullptr) std::abort();
  }
  void run(Input& input) {
    for (unsigned step = 0; step < kMaxSteps && !input.empty(); ++step) {
      const std::uint8_t what = input.byte();
      if (what % 8 == 0) {
        blob(input);
      } else if (what == 1) {
        guest_.guest.gpu->device_model().lose_contexts();
      } else {
        command(input, what);
      }
    }
  }

 private:
  void blob(Input& input) {
    const bool is_user = input.byte() % 4 == 0;
    const auto made = guest_.create_blob(values_.value(input), std::uint64_t{4096} << input.pick(6),
                                         input.byte() % 16, is_user ? arena_.scratch(0) : 0);
    if (made.result != 0) return;
    values_.remember(made.id);
    if (input.byte() % 4 == 0) guest_.guest.close_handle(made.handle);
  }
  void command(Input& input, std::uint8_t what) {
    const auto commands = vhsa::commands();
    const uapi::CommandDescriptor& type = commands[input.pick(commands.size())];
    std::vector<std::byte> bytes(type.request->size);
    values_.fill(input, *type.request, bytes);
    const auto tail = input.bytes(input.pick(kMaxTailBytes));
    bytes.insert(bytes.end(), tail.begin(), tail.end());
    bytes.resize((bytes.size() + 7) & ~std::size_t{7});
    if (what % 16 != 2 && bytes.size() >= sizeof(vhsa::virtio_gpu_ccmd_req)) {
      vhsa::virtio_gpu_ccmd_req header{};
      header.cmd = type.value;
      header.len = static_cast<std::uint32_t>(bytes.size());
      header.seqno = ++seqno_;
      header.rsp_off = input.byte() % 4 == 0 ? input.number<std::uint16_t>() : 0;
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    const std::uint32_t room = input.byte() % 8 == 0 ? input.number<std::uint32_t>() : 2048;
    std::memcpy(guest_.slot(), &room, sizeof room);
    submit(bytes);
    for (std::size_t word = 1; word < 8; ++word) {
      std::uint64_t value = 0;
      std::memcpy(&value, guest_.slot() + word * 8, sizeof value);
      if (value != 0) values_.remember(value);
    }
  }
  // The renderer is a thread of its own and need not answer a stream it has given up.
  void submit(const std::vector<std::byte>& bytes) {
    virtio_gpu::test::guest_abi::drm_virtgpu_execbuffer args{};
    args.size = static_cast<std::uint32_t>(bytes.size());
    args.command = reinterpret_cast<std::uint64_t>(bytes.data());
    args.fence_fd = -1;
    if (guest_.guest.ioctl<virtio_gpu::test::guest_abi::Execbuffer>(args) != 0) return;
    (void)guest_.guest.gpu->device_model().unanswered_count();  // waits for what is being processed
  }

  Arena arena_;
  Values values_{arena_};
  std::uint32_t seqno_ = 0;
  virtio_gpu::test::RocmGuest guest_;
};

}  // namespace
}  // namespace understudy::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  understudy::fuzz::Input input(data, size);
  understudy::fuzz::Stream(input.byte()).run(input);
  return 0;
}
