// Aql: interprets the 64-byte packets of an AQL queue.
//
// Owner: HardwareQueue. Units: packet indices count on, not wrapped. Errors: see RunStatus; a stop because of
// a bad packet has error(). Thread-safety: none. Mirrors: the AQL half of CP firmware.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "sim/kfd/engine/aql_packet.h"
#include "sim/kfd/engine/command_processor.h"
#include "sim/kfd/engine/pm4.h"
#include "sim/kfd/engine/queue_host.h"

namespace understudy::kfd::engine {

struct AqlRing {
  std::uint64_t address = 0;
  std::uint64_t packets = 0;
  std::uint64_t read_index_address = 0;
  std::uint64_t write_index_address = 0;
};

class Aql {
 public:
  Aql(AddressSpace& memory, QueueHost& host) : memory_(memory), host_(host), pm4_(memory, host) {}

  void set_ring(const AqlRing& ring, std::uint64_t read_index);
  // Consumes packets in order as their headers become valid.
  RunStatus run(Budget& budget);
  QueueError error() const { return error_; }
  std::uint64_t read_index() const { return read_index_; }

  // Subtracts one from a signal's value (or sets it) and tells whoever waits. False: a fault.
  bool send_completion(std::uint64_t signal);
  bool set_signal(std::uint64_t signal, std::uint64_t value);

 private:
  enum class Step : std::uint8_t { kDone, kWait, kYield, kFault, kError };

  std::uint64_t packet_address() const {
    return ring_.address + read_index_ % ring_.packets * AqlPacket::kBytes;
  }
  std::optional<bool> fetch();  // whether there is a packet; nothing: a fault
  Step execute(Budget& budget);
  Step execute_vendor(const AqlPacket& packet, Budget& budget);
  Step barrier(const AqlPacket& packet, bool all);
  Step barrier_value(const AqlPacket& packet);
  Step indirect_buffer(const AqlPacket& packet, Budget& budget);
  Step fail(QueueError error);
  bool retire();
  bool notify(std::uint64_t signal);

  AddressSpace& memory_;
  QueueHost& host_;
  Pm4 pm4_;
  AqlRing ring_;
  std::uint64_t read_index_ = 0;
  std::uint64_t write_index_ = 0;  // as last seen
  bool fetched_ = false;
  bool in_indirect_buffer_ = false;
  std::array<std::byte, AqlPacket::kBytes> packet_{};
  std::uint64_t start_ticks_ = 0;
  QueueError error_ = QueueError::kUnsupportedPacket;
};

}  // namespace understudy::kfd::engine
