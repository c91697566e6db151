// CommandProcessor: what SDMA and PM4 have in common: a stream of dwords in a ring, packets that lead into
// indirect buffers, and a packet that may have to wait or be continued later.
//
// Owner: a hardware queue, or one run of an indirect buffer. Units: dwords in names, else bytes.
// Errors: run() says how it ended; a fault's details are in AddressSpace::fault(). Thread-safety: none.
// Mirrors: the fetchers of SDMA's RLC queues and of the CP's compute queues.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/kfd/engine/address_space.h"

namespace understudy::kfd::engine {

// Where a run stopped.
enum class RunStatus : std::uint8_t {
  kIdle,       // everything there was is done
  kWaiting,    // a poll's condition does not hold yet
  kYield,      // the budget is used up; there is more to do
  kFault,      // a memory access failed
  kBadPacket,  // what no hardware would accept
  kDispatch,   // a packet that would run a shader
};

// How much work one turn may do before other queues get theirs.
class Budget {
 public:
  explicit Budget(std::uint64_t bytes) : left_(bytes) {}
  // Every packet costs a little, whatever it moves.
  static constexpr std::uint64_t kPacketCost = 256;
  void spend(std::uint64_t bytes) { left_ = left_ > bytes ? left_ - bytes : 0; }
  bool empty() const { return left_ == 0; }
  std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_;
};

class CommandProcessor {
 public:
  static constexpr unsigned kMaxIndirection = 4;

  explicit CommandProcessor(AddressSpace& memory) : memory_(memory) {}
  virtual ~CommandProcessor() = default;
  CommandProcessor(const CommandProcessor&) = delete;

  // Takes what is between position_dw() and `end_dw` of a ring; both count on, not wrapped.
  void set_ring(std::uint64_t address, std::uint64_t size_dw, std::uint64_t position_dw);
  // Instead of a ring: a buffer that ends.
  void set_indirect_buffer(std::uint64_t address, std::uint64_t size_dw);
  RunStatus run(std::uint64_t end_dw, Budget& budget);
  std::uint64_t position_dw() const { return frames_.empty() ? 0 : frames_.front().position_dw; }
  std::uint64_t packet_count() const { return packet_count_; }

 protected:
  enum class Step : std::uint8_t { kNext, kWait, kMore, kFault, kBadPacket, kDispatch };
  static constexpr std::size_t kHeadDwords = 16;

  // The first dwords of a packet, zeros beyond what the stream has, and access to the rest.
  struct Packet {
    std::array<std::uint32_t, kHeadDwords> dw{};
    std::uint64_t available_dw = 0;  // from the header to the end of the stream
    std::uint64_t address(unsigned low_index) const {
      return std::uint64_t{dw[low_index + 1]} << 32 | dw[low_index];
    }
  };

  // The packet's length including the header; nothing when no packet begins like this.
  virtual std::optional<std::uint64_t> length_dw(const Packet& packet) const = 0;
  virtual Step execute(const Packet& packet, Budget& budget) = 0;

  AddressSpace& memory() { return memory_; }
  // Copies payload of the current packet to device memory.
  bool copy_payload(std::uint64_t to, std::uint64_t first_dw, std::uint64_t count_dw);
  // After the current packet the stream continues in this buffer, then here. False: nested too deep.
  bool enter_indirect_buffer(std::uint64_t address, std::uint64_t size_dw);
  // Leaves out this many dwords after the current packet.
  void skip(std::uint64_t count_dw) { skip_dw_ = count_dw; }
  // Bytes of the current packet already done, for packets that take several turns.
  std::uint64_t progress = 0;

 private:
  struct Frame {
    std::uint64_t address = 0;
    std::uint64_t size_dw = 0;  // of the ring, or of the buffer
    std::uint64_t position_dw = 0;
    std::uint64_t end_dw = 0;
  };
  // Calls visit(address, bytes) for each contiguous part of `count_dw` dwords from `position_dw`.
  template <typename Visit>
  bool for_each_part(const Frame& frame, std::uint64_t position_dw, std::uint64_t count_dw, Visit visit);
  bool fetch(const Frame& frame, Packet& packet);

  AddressSpace& memory_;
  std::vector<Frame> frames_;  // ring (or buffer) first, innermost indirect buffer last
  std::optional<Frame> entered_;
  std::uint64_t skip_dw_ = 0;
  std::uint64_t packet_count_ = 0;
};

}  // namespace understudy::kfd::engine
