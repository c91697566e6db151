// Sixteen threads in four processes allocate, map, export, import, queue and free at random. Meant for the
// thread sanitizer; STRESS_SECONDS makes it longer.
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "sim/core/process_memory.h"
#include "tests/kfd/kfd_fixture.h"

namespace understudy::kfd::testing {
namespace {

using namespace uapi::kfd;

constexpr int kProcesses = 4, kThreadsPerProcess = 4;

// A process of its own as far as the machine can see; its memory is the test's.
class FakeProcess {
 public:
  explicit FakeProcess(Machine& machine) : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
    client_ = machine.clients().resolve(pid_).value();
    client_->use_memory(std::make_unique<ProcessMemory>(::getpid()));
  }
  ~FakeProcess() { end(); }
  FakeProcess(const FakeProcess&) = delete;

  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  Caller caller() const { return {client_, client_->pid()}; }

 private:
  pid_t pid_;
  ClientRef client_;
};

class Stress : public KfdTest {
 protected:
  template <typename Tag>
  int call(const std::shared_ptr<KfdFile>& file, typename Tag::Args& args, const Caller& caller) {
    auto call = std::make_shared<TestCall>(*machine_, caller, file);
    call->command = Tag::kCmd;
    call->argument = reinterpret_cast<std::uint64_t>(&args);
    auto answer = call->answer();
    file->ioctl(call);
    return answer.get();
  }

  // Returns how many allocations succeeded.
  std::uint64_t run_thread(const std::shared_ptr<KfdFile>& file, const Caller& caller, unsigned seed,
                           std::chrono::steady_clock::time_point until) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> handles;
    std::uint64_t allocated = 0;
    const auto pick = [&]() -> std::uint64_t {
      return handles.empty() ? 0 : handles[random() % handles.size()];
    };
    while (std::chrono::steady_clock::now() < until) {
      std::uint32_t gpu_ids[] = {1, 2};
      switch (random() % 8) {
        case 0:
        case 1: {
          kfd_ioctl_alloc_memory_of_gpu_args args{};
          args.va_addr = (std::uint64_t{random() % 4096} << 21) + 0x7000'0000'0000;
          args.size = kPage << random() % 8;
          args.gpu_id = 1 + random() % 2;
          args.flags = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | 1u << random() % 2;
          if (call<AllocMemoryOfGpu>(file, args, caller) == 0) {
            handles.push_back(args.handle);
            ++allocated;
          }
          break;
        }
        case 2: {
          kfd_ioctl_map_memory_to_gpu_args args{pick(), reinterpret_cast<std::uint64_t>(gpu_ids), 2, 0};
          (void)call<MapMemoryToGpu>(file, args, caller);
          break;
        }
        case 3: {
          kfd_ioctl_unmap_memory_from_gpu_args args{pick(), reinterpret_cast<std::uint64_t>(gpu_ids), 2, 0};
          (void)call<UnmapMemoryFromGpu>(file, args, caller);
          break;
        }
        case 4: {
          const std::uint64_t handle = pick();
          kfd_ioctl_unmap_memory_from_gpu_args unmap{handle, reinterpret_cast<std::uint64_t>(gpu_ids), 2, 0};
          (void)call<UnmapMemoryFromGpu>(file, unmap, caller);
          kfd_ioctl_unmap_memory_from_gpu_args second{handle, reinterpret_cast<std::uint64_t>(gpu_ids + 1), 1,
                                                      0};
          (void)call<UnmapMemoryFromGpu>(file, second, caller);
          kfd_ioctl_free_memory_of_gpu_args args{handle};
          if (call<FreeMemoryOfGpu>(file, args, caller) == 0) std::erase(handles, handle);
          break;
        }
        case 5: {
          kfd_ioctl_export_dmabuf_args args{pick(), O_CLOEXEC, 0};
          (void)call<ExportDmabuf>(file, args, caller);
          break;
        }
        case 6: {
          kfd_ioctl_create_event_args args{};
          args.event_type = KFD_IOC_EVENT_MEMORY;
          if (call<CreateEvent>(file, args, caller) != 0) break;
          kfd_event_data data{};
          data.event_id = args.event_id;
          kfd_ioctl_wait_events_args wait{reinterpret_cast<std::uint64_t>(&data), 1, 0, 0, 0};
          (void)call<WaitEvents>(file, wait, caller);
          kfd_ioctl_destroy_event_args destroy{args.event_id, 0};
          (void)call<DestroyEvent>(file, destroy, caller);
          break;
        }
        case 7: {
          kfd_ioctl_get_available_memory_args args{};
          args.gpu_id = 1;
          (void)call<AvailableMemory>(file, args, caller);
          break;
        }
      }
    }
    return allocated;
  }
};

TEST_F(Stress, SixteenThreadsInFourProcessesLeaveNothing) {
  const char* const seconds = std::getenv("STRESS_SECONDS");
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 2);
  build({TestGpu{.gpu_id = 1}, TestGpu{.gpu_id = 2}});
  std::vector<std::unique_ptr<FakeProcess>> processes;
  std::vector<std::shared_ptr<KfdFile>> files;
  for (int process = 0; process < kProcesses; ++process) {
    processes.push_back(std::make_unique<FakeProcess>(*machine_));
    files.push_back(open_kfd(processes.back()->caller()));
    for (std::size_t gpu = 0; gpu < 2; ++gpu) {
      auto render = std::make_shared<AmdgpuFile>(*gpus_[gpu], drm::NodeType::kRender, "dri/renderD128",
                                                 makedev(226, 128));
      ASSERT_TRUE(render->make_compute_vm(files.back()->process().key()));
      const std::lock_guard lock(files.back()->process().mutex());
      files.back()->process().devices()[gpu].file = std::move(render);
    }
  }
  std::atomic<std::uint64_t> allocated{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kProcesses * kThreadsPerProcess; ++thread) {
    const auto process = static_cast<std::size_t>(thread % kProcesses);
    threads.emplace_back([&, process, thread] {
      allocated +=
          run_thread(files[process], processes[process]->caller(), static_cast<unsigned>(thread), until);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(allocated.load(), 100u);
  for (const auto& process : processes) machine_->clients().retire(process->caller().client);
  machine_->sweep();
  for (const auto& gpu : gpus_) {
    EXPECT_EQ(gpu->vram_used_bytes(), 0u);
    EXPECT_EQ(gpu->gtt_used_bytes(), 0u);
  }
  for (const LedgerLine& line : machine_->ledger().live()) ADD_FAILURE() << line.label;
}

}  // namespace
}  // namespace understudy::kfd::testing
