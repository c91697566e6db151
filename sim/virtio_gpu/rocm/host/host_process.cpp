#include "sim/virtio_gpu/rocm/host/host_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>

namespace understudy::virtio_gpu {
namespace {

// A call from within the server: its struct is bytes of the server, its answer is waited for.
class HostCall : public Call {
 public:
  HostCall(Machine& machine, CallKind kind, Caller caller, FileRef file, std::span<std::byte> argument_bytes)
      : Call(machine, kind, std::move(caller), std::move(file)), argument_bytes_(argument_bytes) {}

  Result<void> copy_in(std::span<std::byte> into) override {
    if (into.size() > argument_bytes_.size()) return Errno(EFAULT);
    if (!into.empty()) std::memcpy(into.data(), argument_bytes_.data(), into.size());
    return {};
  }
  Result<void> copy_out(std::span<const std::byte> from) override {
    if (from.size() > argument_bytes_.size()) return Errno(EFAULT);
    if (!from.empty()) std::memcpy(argument_bytes_.data(), from.data(), from.size());
    return {};
  }
  int wait() {
    std::unique_lock lock(mutex_);
    answered_changed_.wait(lock, [this] { return answered_; });
    return value_;
  }

 protected:
  void reply(int value) override {
    for (HandedFd& handed : handed_fds()) {
      if (handed.argument_offset + sizeof(std::int32_t) > argument_bytes_.size()) continue;
      const std::int32_t number = handed.fd.release();
      std::memcpy(argument_bytes_.data() + handed.argument_offset, &number, sizeof number);
    }
    const std::lock_guard lock(mutex_);
    value_ = value;
    answered_ = true;
    answered_changed_.notify_one();
  }
  bool can_hand_fds() const override { return true; }

 private:
  const std::span<std::byte> argument_bytes_;
  std::mutex mutex_;
  std::condition_variable answered_changed_;
  bool answered_ = false;
  int value_ = 0;
};

}  // namespace

HostFile& HostFile::operator=(HostFile&& other) noexcept {
  if (this != &other) {
    close();
    table_ = other.table_;
    file_ = std::move(other.file_);
    descriptor_ = std::move(other.descriptor_);
  }
  return *this;
}

void HostFile::close() {
  if (!file_) return;
  table_->remove(file_->id());
  file_.reset();
}

Result<std::unique_ptr<HostProcess>> HostProcess::create(Machine& host) {
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!pidfd) return last_errno();
  auto client = std::make_shared<Client>(::getpid(), std::move(pidfd));
  auto memory = std::make_unique<HostAddressSpace>();
  HostAddressSpace* const borrowed = memory.get();
  client->use_memory(std::move(memory));
  return std::unique_ptr<HostProcess>(new HostProcess(host, std::move(client), borrowed));
}

HostProcess::~HostProcess() {
  host_.clients().retire(client_);
}

Caller HostProcess::caller() const {
  return {client_, ::gettid()};
}

Result<HostFile> HostProcess::open(std::string_view path) {
  Node* const node = host_.node(path);
  if (node == nullptr) return Errno(ENOENT);
  FileRef file = TRY(host_.open(*node, caller(), O_RDWR | O_CLOEXEC));
  UniqueFd descriptor = TRY(host_.files().make_descriptor(file));
  return HostFile(host_.files(), std::move(file), std::move(descriptor));
}

Result<int> HostProcess::ioctl(const FileRef& file, std::uint32_t command, std::span<std::byte> args) {
  const auto call = std::make_shared<HostCall>(host_, CallKind::kIoctl, caller(), file, args);
  call->command = command;
  file->ioctl(call);
  const int value = call->wait();
  if (value < 0) return Errno(-value);
  return value;
}

Result<MmapTarget> HostProcess::map(const FileRef& file, std::uint64_t offset_bytes,
                                    std::uint64_t length_bytes) const {
  HostCall call(host_, CallKind::kMmap, caller(), file, {});
  return host_.map(call, {.length_bytes = length_bytes,
                          .protection = PROT_READ | PROT_WRITE,
                          .flags = MAP_SHARED,
                          .offset_bytes = offset_bytes});
}

Result<std::string> HostProcess::read_sysfs(std::string_view path) const {
  const SysfsTree::EntryRef entry = host_.sysfs().find(path);
  if (!entry) return Errno(ENOENT);
  return SysfsTree::read(*entry);
}

std::vector<std::string> HostProcess::list_sysfs(std::string_view path) const {
  std::vector<std::string> names;
  const SysfsTree::EntryRef entry = host_.sysfs().find(path);
  if (!entry || !entry->is_directory()) return names;
  for (const auto& [name, child] : host_.sysfs().list(*entry)) names.push_back(name);
  return names;
}

}  // namespace understudy::virtio_gpu
