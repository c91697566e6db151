#include "runtime/driver/xdna/xdna_context.h"

#include <emmintrin.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <set>

#include "runtime/base/mapping.h"
#include "runtime/base/persist.h"
#include "runtime/driver/ioctl.h"
#include "runtime/driver/xdna/ert_packet.h"
#include "runtime/driver/xdna/xdna_device.h"
#include "uapi/amdxdna.h"
#include "uapi/drm.h"

namespace hsa_rt::xdna {
namespace {

constexpr size_t kMaxConfigurations = 32;
constexpr uint64_t kCommandBufferBytes = (kMaxPacketWords + 1) * sizeof(uint32_t);
// The driver gives up on a stuck command after seconds; this is for a driver that is stuck itself.
constexpr int64_t kWaitSeconds = 60;

// The NPU does not look into the CPU's caches.
void flush_cpu_cache(uint64_t address, uint64_t size_bytes) {
  constexpr uint64_t kLineBytes = 64;
  _mm_mfence();
  for (uint64_t line = address & ~(kLineBytes - 1); line < address + size_bytes; line += kLineBytes) {
    _mm_clflush(reinterpret_cast<const void*>(line));
  }
  _mm_mfence();
}

struct CommandBuffer {
  std::shared_ptr<drm::GemRef> gem;
  Mapping mapping;

  uint32_t* words() const { return static_cast<uint32_t*>(mapping.address()); }
  CommandState state() const {
    return packet_state(std::atomic_ref(*words()).load(std::memory_order_acquire));
  }
};

class HardwareContext {
 public:
  static Result<std::unique_ptr<HardwareContext>> create(XdnaDevice& device,
                                                         std::span<const ResidentBuffer> configurations) {
    uapi::amdxdna::amdxdna_qos_info quality{};
    uapi::amdxdna::amdxdna_drm_create_hwctx args{};
    args.qos_p = reinterpret_cast<uint64_t>(&quality);
    args.max_opc = 0x800;
    args.num_tiles = device.core_tiles();
    TRY(driver_ioctl<uapi::amdxdna::CreateHwctx>(device.file().fd(), args));
    auto context = std::make_unique<HardwareContext>(device, args.handle, args.syncobj_handle);
    TRY(context->configure(configurations));
    return context;
  }

  HardwareContext(XdnaDevice& device, uint32_t handle, uint32_t syncobj)
      : device_(device), handle_(handle), syncobj_(syncobj) {}
  HardwareContext(const HardwareContext&) = delete;
  HardwareContext& operator=(const HardwareContext&) = delete;

  ~HardwareContext() {
    uapi::amdxdna::amdxdna_drm_destroy_hwctx context{};
    context.handle = handle_;
    persist([&] { return driver_ioctl<uapi::amdxdna::DestroyHwctx>(device_.file().fd(), context); });
    uapi::drm::drm_syncobj_destroy syncobj{};
    syncobj.handle = syncobj_;
    persist([&] { return driver_ioctl<uapi::drm::SyncobjDestroy>(device_.file().fd(), syncobj); });
  }

  Result<uint64_t> submit(const drm::GemRef& command, std::span<const uint32_t> arguments) {
    uapi::amdxdna::amdxdna_drm_exec_cmd args{};
    args.hwctx = handle_;
    args.type = uapi::amdxdna::AMDXDNA_CMD_SUBMIT_EXEC_BUF;
    args.cmd_handles = command.handle();  // with one command, the handle itself
    args.cmd_count = 1;
    args.args = reinterpret_cast<uint64_t>(arguments.data());
    args.arg_count = static_cast<uint32_t>(arguments.size());
    TRY(driver_ioctl<uapi::amdxdna::ExecCmd>(device_.file().fd(), args));
    return args.seq;
  }

  Result<void> wait(uint64_t sequence) {
    struct timespec now {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    uapi::drm::drm_syncobj_timeline_wait args{};
    args.handles = reinterpret_cast<uint64_t>(&syncobj_);
    args.points = reinterpret_cast<uint64_t>(&sequence);
    args.count_handles = 1;
    args.timeout_nsec = (now.tv_sec + kWaitSeconds) * 1'000'000'000 + now.tv_nsec;
    args.flags = uapi::drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
    return driver_ioctl<uapi::drm::SyncobjTimelineWait>(device_.file().fd(), args);
  }

 private:
  Result<void> configure(std::span<const ResidentBuffer> configurations) {
    using Header = uapi::amdxdna::amdxdna_hwctx_param_config_cu;
    using Entry = uapi::amdxdna::amdxdna_cu_config;
    std::vector<std::byte> parameter(sizeof(Header) + configurations.size() * sizeof(Entry));
    const Header header{.num_cus = static_cast<uint16_t>(configurations.size())};
    std::memcpy(parameter.data(), &header, sizeof(header));
    for (size_t i = 0; i < configurations.size(); ++i) {
      const Entry entry{.cu_bo = configurations[i].gem->handle()};
      std::memcpy(parameter.data() + sizeof(Header) + i * sizeof(Entry), &entry, sizeof(entry));
    }
    uapi::amdxdna::amdxdna_drm_config_hwctx args{};
    args.handle = handle_;
    args.param_type = uapi::amdxdna::DRM_AMDXDNA_HWCTX_CONFIG_CU;
    args.param_val = reinterpret_cast<uint64_t>(parameter.data());
    args.param_val_size = static_cast<uint32_t>(parameter.size());
    return driver_ioctl<uapi::amdxdna::ConfigHwctx>(device_.file().fd(), args);
  }

  XdnaDevice& device_;
  const uint32_t handle_;
  const uint32_t syncobj_;
};

class XdnaContext final : public CommandContext {
 public:
  explicit XdnaContext(XdnaDevice& device) : device_(device) {}

  Result<void> run(std::span<const NpuCommand> commands, std::span<CommandState> states) override {
    TRY(check(commands));
    TRY(load_configurations(commands));
    for (size_t begin = 0; begin < commands.size();) {
      const size_t count = batch_size(commands.subspan(begin));
      TRY(run_batch(commands.subspan(begin, count), states.subspan(begin, count)));
      begin += count;
      // What follows a failed command is not run.
      const bool failed = std::ranges::any_of(
          states.first(begin), [](CommandState state) { return state != CommandState::kCompleted; });
      if (!failed) continue;
      std::ranges::fill(states.subspan(begin), CommandState::kAbort);
      return {};
    }
    return {};
  }

 private:
  static Result<void> check(std::span<const NpuCommand> commands) {
    for (const NpuCommand& command : commands) {
      // One word is the mask of configurations.
      if (command.opcode != kOpcodeStartCu || command.words.size() < StartCuPayload::kFirstOperand ||
          command.words.size() + 1 > kMaxPacketWords ||
          start_cu_slot_bytes(command.words.size()) > kChainPageBytes) {
        return Errno{EINVAL};
      }
    }
    return {};
  }

  static size_t batch_size(std::span<const NpuCommand> commands) {
    size_t bytes = 0;
    size_t count = 0;
    while (count < commands.size() &&
           bytes + start_cu_slot_bytes(commands[count].words.size()) <= kChainPageBytes) {
      bytes += start_cu_slot_bytes(commands[count].words.size());
      ++count;
    }
    return count;
  }

  Result<ResidentBuffer> resident(uint64_t address) const {
    std::optional<ResidentBuffer> buffer = device_.residency().find(address);
    if (!buffer) return Errno{EFAULT};
    return std::move(*buffer);
  }

  size_t configuration_index(uint64_t serial) const {
    const auto found = std::ranges::find(configurations_, serial, &ResidentBuffer::memory_serial);
    return static_cast<size_t>(found - configurations_.begin());
  }

  Result<void> load_configurations(std::span<const NpuCommand> commands) {
    const size_t known = configurations_.size();
    std::vector<ResidentBuffer> wanted = configurations_;
    for (const NpuCommand& command : commands) {
      ResidentBuffer buffer = TRY(resident(command.configuration_address));
      if (std::ranges::find(wanted, buffer.memory_serial, &ResidentBuffer::memory_serial) != wanted.end())
        continue;
      flush_cpu_cache(buffer.span.base, buffer.span.size);
      wanted.push_back(std::move(buffer));
    }
    if (hardware_ != nullptr && wanted.size() == known) return {};
    if (wanted.size() > kMaxConfigurations) return Errno{ENOSPC};
    hardware_.reset();  // contexts are few: the old one goes before the new one comes
    configurations_.clear();
    hardware_ = TRY(HardwareContext::create(device_, wanted));
    configurations_ = std::move(wanted);
    return {};
  }

  Result<CommandBuffer*> command_buffer(size_t index) {
    while (buffers_.size() <= index) {
      CommandBuffer buffer;
      buffer.gem = TRY(device_.create_buffer(uapi::amdxdna::AMDXDNA_BO_CMD, kCommandBufferBytes));
      const BufferInfo info = TRY(device_.buffer_info(*buffer.gem));
      buffer.mapping = TRY(Mapping::map_file(kCommandBufferBytes, PROT_READ | PROT_WRITE, device_.file().fd(),
                                             info.map_offset));
      buffers_.push_back(std::move(buffer));
    }
    return &buffers_[index];
  }

  // Writes one command and adds the buffers it names to `arguments`.
  Result<void> write_command(const NpuCommand& command, CommandBuffer& buffer,
                             std::set<uint32_t>& arguments) {
    using Payload = StartCuPayload;
    std::vector<uint32_t> payload(command.words.begin(), command.words.end());
    const uint64_t instructions = Payload::address_at(payload, Payload::kInstructionAddress);
    const ResidentBuffer code = TRY(resident(instructions));
    flush_cpu_cache(instructions, uint64_t{payload[Payload::kInstructionCount]} * sizeof(uint32_t));
    arguments.insert(code.gem->handle());
    const uint64_t device_address = code.to_device(instructions);
    payload[Payload::kInstructionAddress] = static_cast<uint32_t>(device_address);
    payload[Payload::kInstructionAddress + 1] = static_cast<uint32_t>(device_address >> 32);

    const size_t operands = Payload::operand_count(payload.size());
    for (size_t i = 0; i < operands; ++i) {
      const size_t at = Payload::kFirstOperand + 2 * i;
      if (at + 1 >= payload.size()) return Errno{EINVAL};
      const uint64_t address = Payload::address_at(payload, at);
      const ResidentBuffer operand = TRY(resident(address));
      arguments.insert(operand.gem->handle());
      flush_cpu_cache(address, operand.span.end() - address);
    }

    const ResidentBuffer configuration = TRY(resident(command.configuration_address));
    arguments.insert(configuration.gem->handle());
    uint32_t* words = buffer.words();
    words[1] = 1u << configuration_index(configuration.memory_serial);
    std::ranges::copy(payload, words + 2);
    words[0] = packet_header(kOpcodeStartCu, static_cast<uint32_t>(payload.size() + 1));
    return {};
  }

  Result<void> run_batch(std::span<const NpuCommand> commands, std::span<CommandState> states) {
    std::set<uint32_t> argument_set;
    // Buffer 0 is for the chain.
    for (size_t i = 0; i < commands.size(); ++i) {
      TRY(write_command(commands[i], *TRY(command_buffer(i + 1)), argument_set));
    }
    CommandBuffer* submitted = TRY(command_buffer(1));
    if (commands.size() > 1) {
      submitted = TRY(command_buffer(0));
      write_chain(commands.size(), *submitted);
    }
    const std::vector<uint32_t> arguments(argument_set.begin(), argument_set.end());
    const uint64_t sequence = TRY(hardware_->submit(*submitted->gem, arguments));
    const Result<void> waited = hardware_->wait(sequence);
    if (!waited) {
      // The device may still read what was submitted: give it up with the context, never write to it again.
      std::ranges::fill(states, CommandState::kNoResponse);
      hardware_.reset();
      buffers_.clear();
      return waited.error();
    }
    read_states(commands.size(), *submitted, states);
    return {};
  }

  void write_chain(size_t command_count, CommandBuffer& buffer) {
    const size_t bytes = sizeof(CommandChain) + command_count * sizeof(uint64_t);
    uint32_t* words = buffer.words();
    CommandChain chain{};
    chain.command_count = static_cast<uint32_t>(command_count);
    std::memcpy(words + 1, &chain, sizeof(chain));
    for (size_t i = 0; i < command_count; ++i) {
      const uint64_t handle = buffers_[i + 1].gem->handle();
      std::memcpy(reinterpret_cast<std::byte*>(words + 1) + sizeof(chain) + i * sizeof(handle), &handle,
                  sizeof(handle));
    }
    words[0] = packet_header(kOpcodeCommandChain, static_cast<uint32_t>(bytes / sizeof(uint32_t)));
  }

  // The kernel reports on what was submitted only. A state nobody changed means that the packet was refused.
  void read_states(size_t command_count, const CommandBuffer& submitted, std::span<CommandState> states) {
    const CommandState state =
        submitted.state() == CommandState::kNew ? CommandState::kError : submitted.state();
    if (command_count == 1 || state == CommandState::kCompleted) {
      std::ranges::fill(states, state);
      return;
    }
    CommandChain chain;
    std::memcpy(&chain, submitted.words() + 1, sizeof(chain));
    const size_t failed = std::min<size_t>(chain.error_index, command_count - 1);
    std::ranges::fill(states.first(failed), CommandState::kCompleted);
    states[failed] = state;
    std::ranges::fill(states.subspan(failed + 1), CommandState::kAbort);
  }

  XdnaDevice& device_;
  std::vector<ResidentBuffer> configurations_;  // as the context was configured, in order; keeps the buffers
  std::unique_ptr<HardwareContext> hardware_;
  std::deque<CommandBuffer> buffers_;
};

}  // namespace

std::unique_ptr<CommandContext> make_xdna_context(XdnaDevice& device) {
  return std::make_unique<XdnaContext>(device);
}

}  // namespace hsa_rt::xdna
