// What the KFD tests stand on: a machine with GPUs made up here, and calls without a door. The test process
// itself is the client: its memory is read and written with process_vm_readv as any client's.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <vector>

#include "sim/core/machine.h"
#include "sim/kfd/amdgpu_file.h"
#include "sim/kfd/kfd_file.h"
#include "sim/kfd/kfd_node.h"

namespace understudy::kfd::testing {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint32_t kNoSuchGpu = 0xbad;
// An address nothing is ever mapped at.
inline constexpr std::uint64_t kBadPointer = 0x10;

class TestCall : public Call {
 public:
  TestCall(Machine& machine, Caller caller, FileRef file)
      : Call(machine, CallKind::kIoctl, std::move(caller), std::move(file)) {}
  std::future<int> answer() { return answer_.get_future(); }

 protected:
  void reply(int value) override { answer_.set_value(value); }
  bool can_hand_fds() const override { return true; }

 private:
  std::promise<int> answer_;
};

// What a test asks of a GPU; defaults are those of a gfx90a with little memory.
struct TestGpu {
  std::uint16_t gpu_id = 0x1234;
  std::uint64_t vram_bytes = 4 * kGiB;
  std::uint64_t gfx_target_version = 90010;
  bool large_bar = true;
  std::uint64_t hive_id = 0;
  bool supports_xnack = true;
  bool is_apu = false;
};

inline GpuProfile test_profile(const TestGpu& gpu) {
  GpuProfile profile;
  profile.name = "gfx90a";
  profile.properties = {{"gfx_target_version", gpu.gfx_target_version},
                        {"capability", 0x8000000},
                        {"num_sdma_engines", 2},
                        {"num_sdma_xgmi_engines", 3},
                        {"num_sdma_queues_per_engine", 8},
                        {"num_gws", 64},
                        {"num_xcc", 1}};
  profile.vram_bytes = gpu.vram_bytes;
  profile.memory_heap_type = gpu.large_bar ? 1 : 2;
  profile.supports_xnack = gpu.supports_xnack;
  profile.is_apu = gpu.is_apu;
  profile.gb_addr_config = 0x12345;
  profile.cwsr_bytes = 0x10000;
  profile.control_stack_bytes = 0x2000;
  profile.debug_memory_bytes = 0x1000;
  return profile;
}

class KfdTest : public ::testing::Test {
 protected:
  static constexpr unsigned kCpuNodes = 1;

  void SetUp() override { build({TestGpu{}}); }

  // Replaces the machine; what was open on the old one must be gone.
  void build(const std::vector<TestGpu>& specs, Settings settings = {}) {
    node_.reset();
    driver_.reset();
    gpus_.clear();
    machine_.reset();
    auto clock = std::make_unique<ManualClock>();
    clock_ = clock.get();
    machine_ = std::make_unique<Machine>(settings, std::move(clock));
    auto memory = std::make_shared<SystemMemory>();
    memory->limit_bytes = std::min(settings.limits.system_bytes, 8 * kGiB);
    memory->ttm_limit_bytes = 6 * kGiB;
    std::uint64_t total = 0;
    for (const TestGpu& spec : specs) total += spec.vram_bytes;
    for (const TestGpu& spec : specs) {
      GpuPlacement placement;
      placement.index = static_cast<unsigned>(gpus_.size());
      placement.topology_node = kCpuNodes + placement.index;
      placement.gpu_id = spec.gpu_id;
      placement.render_minor = 128 + placement.index;
      placement.hive_id = spec.hive_id;
      gpus_.push_back(std::make_shared<Gpu>(*machine_, test_profile(spec), placement, memory, total));
      machine_->keep(gpus_.back());
    }
    driver_ = std::make_shared<KfdDriver>(*machine_, gpus_, kCpuNodes + static_cast<unsigned>(gpus_.size()));
    node_ = std::make_shared<KfdNode>(driver_);
    machine_->add_node(node_);
  }

  Caller self() { return caller_of(::getpid()); }
  Caller caller_of(pid_t pid) { return {machine_->clients().resolve(pid).value(), pid}; }

  std::shared_ptr<KfdFile> open_kfd() { return open_kfd(self()); }
  std::shared_ptr<KfdFile> open_kfd(const Caller& caller) {
    FileRef file = machine_->open(*node_, caller, O_RDWR).value();
    machine_->files().add(file);
    return std::dynamic_pointer_cast<KfdFile>(file);
  }
  // A render node's descriptor in the test process.
  UniqueFd open_render(std::size_t gpu = 0) {
    const auto file =
        std::make_shared<AmdgpuFile>(*gpus_[gpu], drm::NodeType::kRender,
                                     "dri/renderD" + std::to_string(128 + gpu), makedev(226, 128 + gpu));
    render_files_.push_back(file);
    return machine_->files().make_descriptor(file).value();
  }

  // The ioctl as user space would see it: >= 0 or -errno.
  template <typename Tag, typename Args = typename Tag::Args>
  int ioctl(const std::shared_ptr<KfdFile>& file, Args& args, std::uint32_t command = Tag::kCmd) {
    return start<Tag>(file, args, self(), command).second.get();
  }
  template <typename Tag, typename Args = typename Tag::Args>
  std::pair<std::shared_ptr<TestCall>, std::future<int>> start(const std::shared_ptr<KfdFile>& file,
                                                               Args& args, const Caller& caller,
                                                               std::uint32_t command = Tag::kCmd) {
    return start_raw(file, command, reinterpret_cast<std::uint64_t>(&args), caller);
  }
  std::pair<std::shared_ptr<TestCall>, std::future<int>> start_raw(const FileRef& file, std::uint32_t command,
                                                                   std::uint64_t argument,
                                                                   const Caller& caller) {
    auto call = std::make_shared<TestCall>(*machine_, caller, file);
    call->command = command;
    call->argument = argument;
    auto answer = call->answer();
    file->ioctl(call);
    last_call_ = call;
    return {call, std::move(answer)};
  }
  int raw_ioctl(const FileRef& file, std::uint32_t command, std::uint64_t argument) {
    return start_raw(file, command, argument, self()).second.get();
  }

  Result<MmapTarget> mmap(const std::shared_ptr<File>& file, std::uint64_t offset, std::uint64_t length,
                          const Caller& caller) {
    TestCall call(*machine_, caller, file);
    MmapRequest request;
    request.length_bytes = length;
    request.protection = PROT_READ | PROT_WRITE;
    request.flags = MAP_SHARED;
    request.offset_bytes = offset;
    return file->mmap(call, request);
  }

  // A process with ACQUIRE_VM done on every GPU.
  std::shared_ptr<KfdFile> open_ready() {
    auto file = open_kfd();
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) acquire_vm(file, gpu);
    return file;
  }
  void acquire_vm(const std::shared_ptr<KfdFile>& file, std::size_t gpu) {
    render_fds_.push_back(open_render(gpu));
    uapi::kfd::kfd_ioctl_acquire_vm_args args{};
    args.drm_fd = static_cast<std::uint32_t>(render_fds_.back().get());
    args.gpu_id = gpus_[gpu]->gpu_id();
    ASSERT_EQ(ioctl<uapi::kfd::AcquireVm>(file, args), 0);
  }

  struct Allocated {
    int result = 0;
    std::uint64_t handle = 0;
    std::uint64_t mmap_offset = 0;
  };
  Allocated alloc(const std::shared_ptr<KfdFile>& file, std::uint32_t flags, std::uint64_t size,
                  std::uint64_t va, std::uint64_t mmap_offset = 0, std::size_t gpu = 0) {
    uapi::kfd::kfd_ioctl_alloc_memory_of_gpu_args args{};
    args.va_addr = va;
    args.size = size;
    args.mmap_offset = mmap_offset;
    args.gpu_id = gpus_[gpu]->gpu_id();
    args.flags = flags;
    const int result = ioctl<uapi::kfd::AllocMemoryOfGpu>(file, args);
    return {result, args.handle, args.mmap_offset};
  }
  int free(const std::shared_ptr<KfdFile>& file, std::uint64_t handle) {
    uapi::kfd::kfd_ioctl_free_memory_of_gpu_args args{handle};
    return ioctl<uapi::kfd::FreeMemoryOfGpu>(file, args);
  }
  struct Mapped {
    int result = 0;
    std::uint32_t n_success = 0;
  };
  Mapped map(const std::shared_ptr<KfdFile>& file, std::uint64_t handle, std::vector<std::uint32_t> gpu_ids,
             std::uint32_t n_success = 0) {
    uapi::kfd::kfd_ioctl_map_memory_to_gpu_args args{};
    args.handle = handle;
    args.device_ids_array_ptr = reinterpret_cast<std::uint64_t>(gpu_ids.data());
    args.n_devices = static_cast<std::uint32_t>(gpu_ids.size());
    args.n_success = n_success;
    const int result = ioctl<uapi::kfd::MapMemoryToGpu>(file, args);
    return {result, args.n_success};
  }
  Mapped unmap(const std::shared_ptr<KfdFile>& file, std::uint64_t handle,
               std::vector<std::uint32_t> gpu_ids) {
    uapi::kfd::kfd_ioctl_unmap_memory_from_gpu_args args{};
    args.handle = handle;
    args.device_ids_array_ptr = reinterpret_cast<std::uint64_t>(gpu_ids.data());
    args.n_devices = static_cast<std::uint32_t>(gpu_ids.size());
    const int result = ioctl<uapi::kfd::UnmapMemoryFromGpu>(file, args);
    return {result, args.n_success};
  }
  // AMDKFD_IOC_SVM; GET rewrites `attributes`.
  int svm(const std::shared_ptr<KfdFile>& file, std::uint32_t op, std::uint64_t start_address,
          std::uint64_t size, std::vector<uapi::kfd::kfd_ioctl_svm_attribute>& attributes) {
    const std::size_t attribute_bytes = attributes.size() * sizeof(attributes[0]);
    std::vector<std::uint64_t> storage((sizeof(uapi::kfd::kfd_ioctl_svm_args) + attribute_bytes) / 8);
    auto* const args = reinterpret_cast<uapi::kfd::kfd_ioctl_svm_args*>(storage.data());
    args->start_addr = start_address;
    args->size = size;
    args->op = op;
    args->nattr = static_cast<std::uint32_t>(attributes.size());
    std::copy(attributes.begin(), attributes.end(), args->attrs);
    const auto bytes = static_cast<std::uint32_t>(storage.size() * 8);
    const int result = raw_ioctl(file, 3u << 30 | bytes << 16 | 'K' << 8 | 0x20,
                                 reinterpret_cast<std::uint64_t>(storage.data()));
    std::copy(args->attrs, args->attrs + attributes.size(), attributes.begin());
    return result;
  }
  int set_svm(const std::shared_ptr<KfdFile>& file, std::uint64_t start_address, std::uint64_t size,
              std::vector<uapi::kfd::kfd_ioctl_svm_attribute> attributes) {
    return svm(file, uapi::kfd::KFD_IOCTL_SVM_OP_SET_ATTR, start_address, size, attributes);
  }
  std::uint64_t available(const std::shared_ptr<KfdFile>& file, std::size_t gpu = 0) {
    uapi::kfd::kfd_ioctl_get_available_memory_args args{};
    args.gpu_id = gpus_[gpu]->gpu_id();
    EXPECT_EQ(ioctl<uapi::kfd::AvailableMemory>(file, args), 0);
    return args.available;
  }

  ManualClock* clock_ = nullptr;
  std::unique_ptr<Machine> machine_;
  std::vector<std::shared_ptr<Gpu>> gpus_;
  std::shared_ptr<KfdDriver> driver_;
  std::shared_ptr<KfdNode> node_;
  std::vector<std::shared_ptr<AmdgpuFile>> render_files_;
  std::vector<UniqueFd> render_fds_;
  std::shared_ptr<TestCall> last_call_;
};

// Pages of the test process, unmapped at the end.
class Pages {
 public:
  explicit Pages(std::uint64_t size_bytes, int protection = PROT_READ | PROT_WRITE)
      : size_bytes_(size_bytes) {
    address_ = ::mmap(nullptr, size_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Pages() { ::munmap(address_, size_bytes_); }
  Pages(const Pages&) = delete;
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(address_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(address_);
  }

 private:
  const std::uint64_t size_bytes_;
  void* address_ = nullptr;
};

}  // namespace understudy::kfd::testing
