#include "sim/door/channel/shim_memory.h"

#include <algorithm>

#include "sim/door/channel/server.h"

namespace understudy::door {
namespace {

constexpr std::size_t kChunkBytes = 32 * 1024;
static_assert(kChunkBytes + sizeof(RequestHeader) <= kMaxMessageBytes);
static_assert(kChunkBytes + sizeof(ReplyHeader) <= kMaxMessageBytes);

}  // namespace

Result<std::size_t> ShimMemory::read_some(std::uint64_t address, std::span<std::byte> into) {
  if (!denied_.load(std::memory_order_relaxed)) {
    const Result<std::size_t> moved = direct_.read_some(address, into);
    if (moved || moved.error() != Errno(EPERM)) return moved;
    denied_.store(true, std::memory_order_relaxed);
  }
  std::size_t done = 0;
  while (done < into.size()) {
    const auto chunk = into.subspan(done, std::min(kChunkBytes, into.size() - done));
    const std::size_t moved = TRY(move_chunk(kReadMemory, address + done, chunk, {}));
    done += moved;
    if (moved < chunk.size()) break;
  }
  return done;
}

Result<std::size_t> ShimMemory::write_some(std::uint64_t address, std::span<const std::byte> from) {
  if (!denied_.load(std::memory_order_relaxed)) {
    const Result<std::size_t> moved = direct_.write_some(address, from);
    if (moved || moved.error() != Errno(EPERM)) return moved;
    denied_.store(true, std::memory_order_relaxed);
  }
  std::size_t done = 0;
  while (done < from.size()) {
    const auto chunk = from.subspan(done, std::min(kChunkBytes, from.size() - done));
    const std::size_t moved = TRY(move_chunk(kWriteMemory, address + done, {}, chunk));
    done += moved;
    if (moved < chunk.size()) break;
  }
  return done;
}

Result<std::size_t> ShimMemory::move_chunk(MessageKind kind, std::uint64_t address, std::span<std::byte> into,
                                           std::span<const std::byte> from) {
  std::vector<ConnectionRef> connections = connections_->all();
  // Our own first: two threads that each wait for an answer on the connection the other reads would wait for
  // ever.
  std::partition(connections.begin(), connections.end(),
                 [](const ConnectionRef& connection) { return connection->is_read_by_this_thread(); });
  for (const ConnectionRef& connection : connections) {
    const Result<std::size_t> moved = connection->move_memory(kind, address, into, from);
    // EAGAIN: no call waits on that connection.
    if (moved || moved.error() != Errno(EAGAIN)) return moved;
  }
  return Errno(EFAULT);
}

}  // namespace understudy::door
