#include "tests/fuzz/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace understudy::fuzz {
namespace {

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;

class ArenaMemory : public ClientMemory, public VmaSource {
 public:
  explicit ArenaMemory(std::uint64_t base) : base_(base), process_(::getpid()) {}

  Result<std::size_t> read_some(std::uint64_t address, std::span<std::byte> into) override {
    return process_.read_some(address, into.first(reachable(address, into.size())));
  }
  Result<std::size_t> write_some(std::uint64_t address, std::span<const std::byte> from) override {
    return process_.write_some(address, from.first(reachable(address, from.size())));
  }
  Result<Vma> vma_at(std::uint64_t address) override {
    if (address - base_ >= Arena::kBytes) return Errno(EFAULT);
    return Vma{base_, base_ + Arena::kBytes, true, true, false, false};
  }

 private:
  std::size_t reachable(std::uint64_t address, std::size_t bytes) const {
    const std::uint64_t offset = address - base_;
    return offset >= Arena::kBytes ? 0 : std::min<std::uint64_t>(bytes, Arena::kBytes - offset);
  }
  const std::uint64_t base_;
  ProcessMemory process_;
};

}  // namespace

Arena::Arena() {
  void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kAnonymous, -1, 0);
  if (at == MAP_FAILED) std::abort();
  base_ = reinterpret_cast<std::uint64_t>(at);
}

Arena::~Arena() {
  ::munmap(reinterpret_cast<void*>(base_), kBytes);
}

bool Arena::map(std::size_t index, int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes,
                int protection) {
  const std::uint64_t length = std::min(length_bytes, kSlotBytes);
  return ::mmap(reinterpret_cast<void*>(slot(index)), length, protection, MAP_SHARED | MAP_FIXED, fd,
                static_cast<off_t>(offset_bytes)) != MAP_FAILED;
}

void Arena::unmap(std::size_t index) {
  ::mmap(reinterpret_cast<void*>(slot(index)), kSlotBytes, PROT_READ | PROT_WRITE, kAnonymous | MAP_FIXED, -1,
         0);
}

std::unique_ptr<ClientMemory> Arena::memory() const {
  return std::make_unique<ArenaMemory>(base_);
}

}  // namespace understudy::fuzz
