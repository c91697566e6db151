// ShimDma: the shim tiles' DMA engines: buffer descriptors in registers, task queues, completion tokens.
//
// Owner: one per running transaction. Units: BD lengths and steps are 32-bit words, addresses bytes. Errors:
// push() says what went wrong. Thread-safety: none. Mirrors: AIE2 shim DMA registers (aie-rt's
// xaiemlgbl_params), as used by mlir-aie designs.
//
// A pass-through design routes each column's MM2S channel c to its S2MM channel c; only then does data move
// here. What a design with cores would produce is not known, so its S2MM tasks never complete.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "sim/xdna/npu_memory.h"
#include "sim/xdna/tile_registers.h"
#include "sim/xdna/watchdog.h"

namespace understudy::xdna {

enum class DmaDirection : std::uint8_t { kS2mm = 0, kMm2s = 1 };

class ShimDma {
 public:
  static constexpr std::uint32_t kBdBase = 0x1D000;
  static constexpr std::uint32_t kBdStride = 0x20;
  static constexpr unsigned kBdCount = 16;
  // The shim sees host memory at its address plus this.
  static constexpr std::uint64_t kDdrOffset = 0x80000000;

  ShimDma(TileRegisters& registers, const NpuMemory& memory, Watchdog& watchdog, bool pass_through)
      : registers_(registers), memory_(memory), watchdog_(watchdog), pass_through_(pass_through) {}

  struct Queue {
    DmaDirection direction;
    unsigned channel;
  };
  // The task queue behind a register offset of a shim tile, if it is one.
  static std::optional<Queue> queue_at(std::uint32_t offset);

  // A word written to a task queue. False: an address outside every BO, an invalid descriptor, or the
  // watchdog stopped it.
  bool push(unsigned column, Queue queue, std::uint32_t word);
  // Consumes completion tokens; false: there are none, and none will ever come.
  bool take_token(unsigned column, Queue queue);

 private:
  struct Channel {
    std::deque<std::vector<std::uint64_t>> waiting;  // S2MM tasks: word addresses still to fill
    std::deque<bool> waiting_tokens;                 // whether the task issues a token when done
    unsigned tokens = 0;
  };
  using Key = std::pair<unsigned, unsigned>;  // (column, channel)

  bool addresses_of(unsigned column, unsigned bd, bool for_write, std::vector<std::uint64_t>* words);
  std::optional<std::uint64_t> host_address(std::uint64_t address, std::uint64_t size_bytes,
                                            bool for_write) const;
  bool move(Key key);

  TileRegisters& registers_;
  const NpuMemory& memory_;
  Watchdog& watchdog_;
  const bool pass_through_;
  std::map<std::pair<Key, DmaDirection>, Channel> channels_;
  std::map<Key, std::deque<std::uint32_t>> streams_;  // words read by MM2S and not yet taken by S2MM
};

}  // namespace understudy::xdna
