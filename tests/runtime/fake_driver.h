// A driver made of memfds, for tests of the core that need no kernel: CPU mappings are real, device mappings
// are recorded, and any operation can be told to fail. Counts what is alive, so that a test can see leaks and
// double closes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <string>

#include "runtime/driver/driver.h"

namespace hsa_rt::test {

class FakeDevice;

struct FakeCounts {
  int memories = 0;
  int memories_closed = 0;
  int shares = 0;
  int borrowed_shares_made = 0;
  int imports = 0;
  int exports = 0;
  int device_mappings = 0;
};

class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(DriverId id) : id_(id) {}

  FakeDevice& add_device(DeviceKind kind, bool shares_cpu_page_tables);

  DriverId id() const override { return id_; }
  std::string_view name() const override { return "fake"; }
  std::span<const std::unique_ptr<Device>> devices() const override { return devices_; }
  Result<std::shared_ptr<Memory>> import_dmabuf(int dmabuf_fd, uint64_t bound_address) override;

  // Asked before each operation, by name; an errno makes it fail.
  Result<void> check(const std::string& operation) {
    ++calls[operation];
    const int error = fail ? fail(operation) : 0;
    if (error != 0) return Errno{error};
    return {};
  }

  std::function<int(const std::string&)> fail;
  std::map<std::string, int> calls;
  FakeCounts counts;

 private:
  const DriverId id_;
  std::vector<std::unique_ptr<Device>> devices_;
};

class FakeMemory final : public Memory {
 public:
  FakeMemory(FakeDriver& driver, Device& device, uint64_t size_bytes, Placement placement, UniqueFd fd)
      : Memory(device, size_bytes, placement), driver_(driver), fd_(std::move(fd)) {
    ++driver_.counts.memories;
  }
  ~FakeMemory() override { (void)close(); }

  Result<UniqueFd> export_dmabuf() const override {
    TRY(driver_.check("export"));
    ++driver_.counts.exports;
    return fd_.dup();
  }
  Result<CpuSource> cpu_source(uint64_t offset) const override {
    TRY(driver_.check("cpu_source"));
    return CpuSource{{}, fd_.get(), offset};
  }

 protected:
  Result<void> close() override {
    if (!fd_) return {};
    TRY(driver_.check("close"));
    fd_ = UniqueFd();
    --driver_.counts.memories;
    ++driver_.counts.memories_closed;
    return {};
  }

 private:
  FakeDriver& driver_;
  UniqueFd fd_;
};

class FakeDevice final : public Device {
 public:
  struct Placed {
    uint64_t size = 0;
    uint64_t offset = 0;
    uint64_t memory_serial = 0;
    Permission permission = Permission::kNone;
  };

  FakeDevice(FakeDriver& driver, DeviceInfo info, bool shares_cpu_page_tables)
      : driver_(driver), info_(std::move(info)), shares_cpu_page_tables_(shares_cpu_page_tables) {}

  Driver& driver() const override { return driver_; }
  const DeviceInfo& info() const override { return info_; }
  bool shares_cpu_page_tables() const override { return shares_cpu_page_tables_; }

  Result<std::shared_ptr<Memory>> allocate(const AllocationRequest& request) override {
    TRY(driver_.check("allocate"));
    UniqueFd fd(::memfd_create("fake", MFD_CLOEXEC));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(request.size_bytes)) != 0) return Errno{errno};
    return std::shared_ptr<Memory>(
        std::make_shared<FakeMemory>(driver_, *this, request.size_bytes, request.placement, std::move(fd)));
  }

  Result<std::unique_ptr<Share>> attach(std::shared_ptr<Memory> memory) override;

  std::map<uint64_t, Placed> placed;  // device mappings by address

 private:
  FakeDriver& driver_;
  const DeviceInfo info_;
  const bool shares_cpu_page_tables_;
};

class FakeMapping final : public DeviceMapping {
 public:
  FakeMapping(FakeDriver& driver, FakeDevice& device, uint64_t base)
      : driver_(driver), device_(device), base_(base) {
    ++driver_.counts.device_mappings;
  }
  ~FakeMapping() override {
    if (mapped_) forget();
  }
  Result<void> set_permission(Permission permission) override {
    TRY(driver_.check("set_permission"));
    device_.placed.at(base_).permission = permission;
    return {};
  }

 protected:
  Result<void> unmap() override {
    TRY(driver_.check("unmap"));
    forget();
    return {};
  }

 private:
  void forget() {
    device_.placed.erase(base_);
    --driver_.counts.device_mappings;
    mapped_ = false;
  }
  FakeDriver& driver_;
  FakeDevice& device_;
  const uint64_t base_;
  bool mapped_ = true;
};

class FakeShare final : public Share {
 public:
  FakeShare(FakeDriver& driver, FakeDevice& device, std::shared_ptr<Memory> memory, bool borrowed)
      : Share(std::move(memory), borrowed), driver_(driver), device_(device) {
    ++driver_.counts.shares;
    if (borrowed) ++driver_.counts.borrowed_shares_made;
  }
  ~FakeShare() override { --driver_.counts.shares; }

  Result<std::unique_ptr<DeviceMapping>> map(const AddressSpan& span, uint64_t offset,
                                             Permission permission) override {
    TRY(driver_.check("map"));
    if (!device_.placed
             .try_emplace(span.base, FakeDevice::Placed{span.size, offset, memory()->serial(), permission})
             .second) {
      return Errno{EINVAL};
    }
    return std::unique_ptr<DeviceMapping>(std::make_unique<FakeMapping>(driver_, device_, span.base));
  }

 private:
  FakeDriver& driver_;
  FakeDevice& device_;
};

inline Result<std::unique_ptr<Share>> FakeDevice::attach(std::shared_ptr<Memory> memory) {
  TRY(driver_.check("attach"));
  const bool borrowed = &memory->device() == this || info_.kind == DeviceKind::kCpu;
  if (!borrowed) {
    const UniqueFd fd = TRY(memory->export_dmabuf());
    TRY(driver_.check("import"));
    ++driver_.counts.imports;
  }
  return std::unique_ptr<Share>(std::make_unique<FakeShare>(driver_, *this, std::move(memory), borrowed));
}

inline FakeDevice& FakeDriver::add_device(DeviceKind kind, bool shares_cpu_page_tables) {
  DeviceInfo info;
  info.kind = kind;
  info.node_id = static_cast<uint32_t>(devices_.size());
  PoolInfo pool;
  pool.placement = kind == DeviceKind::kCpu ? Placement::kHost : Placement::kDevice;
  pool.size_bytes = uint64_t{1} << 30;
  pool.coarse_grained = true;
  info.pools.push_back(pool);
  auto device = std::make_unique<FakeDevice>(*this, std::move(info), shares_cpu_page_tables);
  FakeDevice& made = *device;
  devices_.push_back(std::move(device));
  return made;
}

inline Result<std::shared_ptr<Memory>> FakeDriver::import_dmabuf(int dmabuf_fd, uint64_t) {
  if (devices_.empty() || devices_.front()->info().kind == DeviceKind::kCpu) return Errno{ENODEV};
  TRY(check("import"));
  const off_t size = ::lseek(dmabuf_fd, 0, SEEK_END);
  if (size <= 0) return Errno{EINVAL};
  const int fd = ::fcntl(dmabuf_fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return Errno{errno};
  ++counts.imports;
  return std::shared_ptr<Memory>(std::make_shared<FakeMemory>(
      *this, *devices_.front(), static_cast<uint64_t>(size), Placement::kDevice, UniqueFd(fd)));
}

}  // namespace hsa_rt::test
