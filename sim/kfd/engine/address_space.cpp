#include "sim/kfd/engine/address_space.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "sim/kfd/amdgpu_bo.h"
#include "sim/kfd/gpu.h"

namespace understudy::kfd::engine {
namespace {

constexpr std::uint64_t kBounceBytes = 1024 * 1024;

// Engines' read-modify-writes of clients' private pages, one at a time.
std::mutex& private_pages_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Fills `target` with the pattern as if it had begun `phase` bytes earlier.
void repeat(std::span<std::byte> target, std::span<const std::byte> pattern, std::uint64_t phase) {
  std::size_t filled = std::min(target.size(), pattern.size());
  for (std::size_t index = 0; index < filled; ++index)
    target[index] = pattern[(phase + index) % pattern.size()];
  while (filled < target.size()) {
    const std::size_t bytes = std::min(filled, target.size() - filled);
    std::memcpy(target.data() + filled, target.data(), bytes);
    filled += bytes;
  }
}

}  // namespace

AddressSpace::AddressSpace(const Gpu& gpu, std::shared_ptr<GpuVm> vm, std::shared_ptr<Svm> svm,
                           ClientRef client, bool xnack_enabled)
    : gpu_(gpu),
      vm_(std::move(vm)),
      svm_(std::move(svm)),
      client_(std::move(client)),
      xnack_enabled_(xnack_enabled) {}

bool AddressSpace::fail(std::uint64_t address, Access access, bool present) {
  fault_ = GpuFault::of(address, access, present);
  return false;
}

std::optional<AddressSpace::Piece> AddressSpace::piece_at(std::uint64_t address, std::uint64_t max_bytes,
                                                          Access access) {
  GpuFault fault;
  const auto translation = vm_->translate(address, max_bytes, access, &fault);
  if (!translation) {
    if (fault.not_present) {
      if (auto piece = svm_piece_at(address, max_bytes, access)) return piece;
    }
    if (!fault_) fault_ = fault;
    return std::nullopt;
  }
  Piece piece;
  piece.size_bytes = translation->size_bytes;
  if (!translation->bo) return piece;
  const AmdgpuBo& bo = *translation->bo;
  if (bo.is_userptr()) {
    piece.client = bo.spec().user_client;
    piece.client_address = bo.spec().user_address + translation->offset_bytes;
    piece.read_only = bo.spec().user_read_only;
    return piece;
  }
  piece.keep_alive = bo.buffer();
  const auto bytes =
      piece.keep_alive ? piece.keep_alive->bytes() : Result<std::span<std::byte>>(Errno(ENOMEM));
  if (!bytes) {
    fail(address, access, /*present=*/false);
    return std::nullopt;
  }
  piece.pinned = bytes.value().subspan(translation->offset_bytes, translation->size_bytes);
  return piece;
}

std::optional<AddressSpace::Piece> AddressSpace::svm_piece_at(std::uint64_t address, std::uint64_t max_bytes,
                                                              Access access) {
  if (!svm_ || address >= GpuVm::kEndAddress) return std::nullopt;
  const auto accessible = svm_->access(gpu_, address, xnack_enabled_);
  if (!accessible) return std::nullopt;
  const PagePermissions& permissions = accessible->permissions;
  if ((access == Access::kWrite && !permissions.writable) ||
      (access == Access::kExecute && !permissions.executable)) {
    fail(address, access, /*present=*/true);
    return std::nullopt;
  }
  Piece piece;
  piece.client = client_;
  piece.client_address = address;
  piece.size_bytes = std::min(max_bytes, accessible->size_bytes);
  return piece;
}

bool AddressSpace::read_piece(const Piece& piece, std::uint64_t address, std::span<std::byte> into) {
  if (!piece.pinned.empty()) {
    std::memcpy(into.data(), piece.pinned.data(), into.size());
    return true;
  }
  if (!piece.client) {
    std::fill(into.begin(), into.end(), std::byte{0});
    return true;
  }
  if (piece.client->gone()) return fail(address, Access::kRead, /*present=*/false);
  const auto moved = piece.client->memory().read_some(piece.client_address, into);
  const std::size_t bytes = moved ? moved.value() : 0;
  return bytes == into.size() || fail(address + bytes, Access::kRead, /*present=*/false);
}

bool AddressSpace::write_piece(const Piece& piece, std::uint64_t address, std::span<const std::byte> from) {
  if (!piece.pinned.empty()) {
    std::memcpy(piece.pinned.data(), from.data(), from.size());
    return true;
  }
  if (!piece.client) return true;
  if (piece.read_only) return fail(address, Access::kWrite, /*present=*/true);
  if (piece.client->gone()) return fail(address, Access::kWrite, /*present=*/false);
  const auto moved = piece.client->memory().write_some(piece.client_address, from);
  const std::size_t bytes = moved ? moved.value() : 0;
  return bytes == from.size() || fail(address + bytes, Access::kWrite, /*present=*/false);
}

bool AddressSpace::read(std::uint64_t address, std::span<std::byte> into, Access access) {
  while (!into.empty()) {
    const auto piece = piece_at(address, into.size(), access);
    if (!piece || !read_piece(*piece, address, into.first(piece->size_bytes))) return false;
    address += piece->size_bytes;
    into = into.subspan(piece->size_bytes);
  }
  return true;
}

bool AddressSpace::write(std::uint64_t address, std::span<const std::byte> from) {
  while (!from.empty()) {
    const auto piece = piece_at(address, from.size(), Access::kWrite);
    if (!piece || !write_piece(*piece, address, from.first(piece->size_bytes))) return false;
    address += piece->size_bytes;
    from = from.subspan(piece->size_bytes);
  }
  return true;
}

// Whichever side the server has mapped is used in place; only private pages on both sides need the bounce
// buffer.
bool AddressSpace::copy_piece(const Piece& to, std::uint64_t to_address, const Piece& from,
                              std::uint64_t from_address, std::uint64_t size_bytes) {
  if (!to.pinned.empty() && !from.pinned.empty()) {
    std::memmove(to.pinned.data(), from.pinned.data(), size_bytes);
    return true;
  }
  if (!to.pinned.empty()) return read_piece(from, from_address, to.pinned.first(size_bytes));
  if (!from.pinned.empty()) return write_piece(to, to_address, from.pinned.first(size_bytes));
  bounce_.resize(size_bytes);
  return read_piece(from, from_address, bounce_) && write_piece(to, to_address, bounce_);
}

bool AddressSpace::copy(std::uint64_t to, std::uint64_t from, std::uint64_t size_bytes) {
  while (size_bytes > 0) {
    const std::uint64_t most = std::min(size_bytes, kBounceBytes);
    const auto source = piece_at(from, most, Access::kRead);
    if (!source) return false;
    const auto target = piece_at(to, source->size_bytes, Access::kWrite);
    if (!target) return false;
    const std::uint64_t bytes = target->size_bytes;
    if (!copy_piece(*target, to, *source, from, bytes)) return false;
    to += bytes;
    from += bytes;
    size_bytes -= bytes;
  }
  return true;
}

bool AddressSpace::fill(std::uint64_t address, std::uint64_t size_bytes, std::span<const std::byte> pattern) {
  std::uint64_t done = 0;
  while (done < size_bytes) {
    const auto piece = piece_at(address + done, std::min(size_bytes - done, kBounceBytes), Access::kWrite);
    if (!piece) return false;
    bounce_.resize(piece->pinned.empty() ? piece->size_bytes : 0);
    const std::span<std::byte> target = piece->pinned.empty() ? std::span(bounce_) : piece->pinned;
    repeat(target, pattern, done);
    if (piece->pinned.empty() && !write_piece(*piece, address + done, target)) return false;
    done += piece->size_bytes;
  }
  return true;
}

template <typename T>
std::optional<T> AddressSpace::exchange_with(std::uint64_t address, const std::function<T(T)>& change) {
  if (address % sizeof(T) != 0) {
    fail(address, Access::kWrite, /*present=*/true);
    return std::nullopt;
  }
  const auto piece = piece_at(address, sizeof(T), Access::kWrite);
  if (!piece) return std::nullopt;
  if (!piece->pinned.empty()) {
    const std::atomic_ref<T> shared(*reinterpret_cast<T*>(piece->pinned.data()));
    T old_value = shared.load();
    while (!shared.compare_exchange_weak(old_value, change(old_value))) {
    }
    return old_value;
  }
  const std::lock_guard lock(private_pages_mutex());
  T value{};
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  if (!read_piece(*piece, address, bytes)) return std::nullopt;
  const T old_value = value;
  value = change(old_value);
  if (!write_piece(*piece, address, bytes)) return std::nullopt;
  return old_value;
}

template std::optional<std::uint32_t> AddressSpace::exchange_with(
    std::uint64_t, const std::function<std::uint32_t(std::uint32_t)>&);
template std::optional<std::uint64_t> AddressSpace::exchange_with(
    std::uint64_t, const std::function<std::uint64_t(std::uint64_t)>&);

}  // namespace understudy::kfd::engine
