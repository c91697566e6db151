#include "sim/core/vma.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <memory>

#include "sim/core/fd.h"

namespace understudy {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// PROCMAP_QUERY of include/uapi/linux/fs.h, since Linux 6.11: newer than the headers this is built with.
struct ProcmapQuery {
  std::uint64_t size = sizeof(ProcmapQuery);
  std::uint64_t query_flags = 0;  // 0: the mapping that covers query_addr, whatever its permissions
  std::uint64_t query_addr = 0;
  std::uint64_t vma_start = 0;
  std::uint64_t vma_end = 0;
  std::uint64_t vma_flags = 0;
  std::uint64_t vma_page_size = 0;
  std::uint64_t vma_offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t dev_major = 0;
  std::uint32_t dev_minor = 0;
  std::uint32_t vma_name_size = 0;
  std::uint32_t build_id_size = 0;
  std::uint64_t vma_name_addr = 0;
  std::uint64_t build_id_addr = 0;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr std::uint64_t kVmaReadable = 1, kVmaWritable = 2, kVmaExecutable = 4;

Result<Vma> vma_from_text(int maps_fd, std::uint64_t address) {
  UniqueFd copy(::fcntl(maps_fd, F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(copy ? ::fdopen(copy.get(), "r") : nullptr, &std::fclose);
  if (!maps) return Errno(ENOSYS);
  copy.release();
  std::rewind(maps.get());
  char line[512];
  while (std::fgets(line, sizeof line, maps.get())) {
    Vma vma;
    char permissions[5] = {};
    std::uint64_t inode = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64, &vma.start, &vma.end, permissions,
                    &inode) != 4) {
      continue;
    }
    if (vma.start > address) break;
    if (address >= vma.end) continue;
    vma.readable = permissions[0] == 'r';
    vma.writable = permissions[1] == 'w';
    vma.executable = permissions[2] == 'x';
    vma.has_file = inode != 0;
    return vma;
  }
  return Errno(EFAULT);
}

class Maps {
 public:
  explicit Maps(Client& client) : source_(dynamic_cast<VmaSource*>(&client.memory())) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%d/maps", client.pid());
    fd_ = UniqueFd(::open(path, O_RDONLY | O_CLOEXEC));
  }

  Result<Vma> at(std::uint64_t address) {
    if (source_ != nullptr) return source_->vma_at(address);
    if (!fd_) return Errno(ENOSYS);
    ProcmapQuery query;
    query.query_addr = address;
    if (::ioctl(fd_.get(), kProcmapQuery, &query) == 0) {
      return Vma{query.vma_start,
                 query.vma_end,
                 (query.vma_flags & kVmaReadable) != 0,
                 (query.vma_flags & kVmaWritable) != 0,
                 (query.vma_flags & kVmaExecutable) != 0,
                 query.inode != 0};
    }
    if (errno == ENOENT || errno == ESRCH) return Errno(EFAULT);
    return vma_from_text(fd_.get(), address);
  }

 private:
  VmaSource* const source_;  // null: the kernel knows
  UniqueFd fd_;
};

Result<void> try_to_read(Client& client, std::uint64_t address, std::uint64_t size_bytes) {
  for (std::uint64_t offset = 0; offset < size_bytes; offset += kPageBytes) {
    if (!client.memory().read_value<std::byte>(address + offset)) return Errno(EFAULT);
  }
  return {};
}

}  // namespace

std::vector<FileMapping> shared_file_mappings(const Client& client) {
  std::vector<FileMapping> mappings;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/maps", client.pid());
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(std::fopen(path, "re"), &std::fclose);
  if (!maps) return mappings;
  char line[512];
  while (std::fgets(line, sizeof line, maps.get())) {
    std::uint64_t start = 0, end = 0, offset = 0;
    std::uint64_t inode = 0;
    unsigned device_major = 0, device_minor = 0;
    char permissions[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &start, &end, permissions,
                    &offset, &device_major, &device_minor, &inode) != 7) {
      continue;
    }
    if (inode == 0 || permissions[0] != 'r' || permissions[3] != 's') continue;
    mappings.push_back({start, end - start, offset, makedev(device_major, device_minor),
                        static_cast<ino_t>(inode), permissions[1] == 'w'});
  }
  return mappings;
}

Result<Vma> vma_at(Client& client, std::uint64_t address) {
  return Maps(client).at(address);
}

Result<void> check_user_range(Client& client, std::uint64_t address, std::uint64_t size_bytes,
                              bool writable) {
  std::uint64_t end = 0;
  if (__builtin_add_overflow(address, size_bytes, &end)) return Errno(EFAULT);
  Maps maps(client);
  while (address < end) {
    const Result<Vma> vma = maps.at(address);
    if (!vma && vma.error() == Errno(ENOSYS)) return try_to_read(client, address, end - address);
    if (!vma || !vma.value().readable || (writable && !vma.value().writable)) return Errno(EFAULT);
    address = vma.value().end;
  }
  return {};
}

}  // namespace understudy
