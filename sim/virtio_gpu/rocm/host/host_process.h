// HostProcess: the process that runs the guest, as the host machine knows it: a client inside the server,
// whose calls go through the same files and dispatchers as everybody's.
//
// Owner: the ROCm renderer. Units: bytes. Errors: the host drivers' errno; ENOENT for a node the host does
// not have. Thread-safety: all methods from any thread. Its end retires the client, which frees what the
// host's drivers keep for it. Mirrors: a virtual machine monitor's open files and ioctls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/file.h"
#include "sim/core/machine.h"
#include "sim/virtio_gpu/rocm/host/host_address_space.h"

namespace understudy::virtio_gpu {

// A file of the host that the process has open, with a descriptor, for calls that name files by descriptor.
class HostFile {
 public:
  HostFile() = default;
  HostFile(HostFile&& other) noexcept = default;
  HostFile& operator=(HostFile&& other) noexcept;
  ~HostFile() { close(); }

  explicit operator bool() const { return file_ != nullptr; }
  const FileRef& file() const { return file_; }
  int descriptor() const { return descriptor_.get(); }

 private:
  friend class HostProcess;
  HostFile(FileTable& table, FileRef file, UniqueFd descriptor)
      : table_(&table), file_(std::move(file)), descriptor_(std::move(descriptor)) {}
  void close();

  FileTable* table_ = nullptr;
  FileRef file_;
  UniqueFd descriptor_;
};

class HostProcess {
 public:
  // Fails with what making a client costs: EMFILE, ESRCH.
  static Result<std::unique_ptr<HostProcess>> create(Machine& host);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;

  Machine& machine() const { return host_; }
  HostAddressSpace& memory() const { return *memory_; }

  Result<HostFile> open(std::string_view node);

  // The ioctl's return value; descriptors it hands out are installed in the server and written to `args`,
  // whose owner the caller then is.
  template <typename Tag>
  Result<int> ioctl(const FileRef& file, typename Tag::Args& args) {
    return ioctl(file, Tag::kCmd, std::as_writable_bytes(std::span(&args, 1)));
  }
  Result<int> ioctl(const FileRef& file, std::uint32_t command, std::span<std::byte> args);
  Result<MmapTarget> map(const FileRef& file, std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

  // Text of a sysfs attribute of the host. ENOENT.
  Result<std::string> read_sysfs(std::string_view path) const;
  std::vector<std::string> list_sysfs(std::string_view path) const;

 private:
  HostProcess(Machine& host, ClientRef client, HostAddressSpace* memory)
      : host_(host), client_(std::move(client)), memory_(memory) {}
  Caller caller() const;

  Machine& host_;
  const ClientRef client_;
  HostAddressSpace* const memory_;  // the client's
};

}  // namespace understudy::virtio_gpu
