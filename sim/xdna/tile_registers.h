// TileRegisters: the register file of all tiles a transaction can write, sparse, by absolute address
// (column << 25 | row << 20 | offset).
//
// Owner: one per running transaction. Units: 32-bit registers. Errors: none; unwritten registers read zero.
// Thread-safety: none. Mirrors: the AIE2 tile address map.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace understudy::xdna {

struct TileAddress {
  unsigned column = 0;
  unsigned row = 0;
  std::uint32_t offset = 0;

  static TileAddress of(std::uint64_t address) {
    return {static_cast<unsigned>((address >> 25) & 0x7f), static_cast<unsigned>((address >> 20) & 0x1f),
            static_cast<std::uint32_t>(address & 0xfffff)};
  }
  std::uint64_t absolute() const { return std::uint64_t{column} << 25 | std::uint64_t{row} << 20 | offset; }
};

class TileRegisters {
 public:
  std::uint32_t read(std::uint64_t address) const {
    const auto found = words_.find(address);
    return found == words_.end() ? 0 : found->second;
  }
  void write(std::uint64_t address, std::uint32_t value) { words_[address] = value; }

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> words_;
};

}  // namespace understudy::xdna
