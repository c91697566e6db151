// A program for the NPU that copies words from its first argument to its second, in the instruction encoding
// of mlir-aie. It goes with a configuration that wires each column's way in to its way out; the simulator has
// one under this name.
#pragma once

#include <cstdint>
#include <vector>

namespace hsa_rt::test {

inline constexpr char kPassThroughConfiguration[] = "UNDERSTUDY PASS-THROUGH";

inline std::vector<uint32_t> npu_copy_program(uint32_t word_count) {
  constexpr uint32_t kBlockWrite = 1, kWrite = 0, kPatchAddress = 129, kWaitForToken = 128;
  constexpr uint32_t kValid = 1u << 25;
  constexpr uint32_t kReadDescriptor = 0x1D000, kWriteDescriptor = 0x1D020;
  constexpr uint32_t kQueueToMemory = 0x1D204, kQueueFromMemory = 0x1D214;
  std::vector<uint32_t> operations;
  uint32_t count = 0;
  const auto add = [&](std::vector<uint32_t> words) {
    operations.insert(operations.end(), words.begin(), words.end());
    ++count;
  };
  const auto describe = [&](uint32_t descriptor, uint32_t argument) {
    add({kBlockWrite, 0, descriptor, 16 + 4 * 8, word_count, 0, 0, 0, 0, 0, 0, kValid});
    add({kPatchAddress, 48, 0, 0, 0, 0, descriptor + 4, 0, argument, 0, 0, 0});
  };
  describe(kReadDescriptor, 0);
  describe(kWriteDescriptor, 1);
  add({kWrite, 0, kQueueToMemory, 0, 1 | 1u << 31, 24});  // descriptor 1, with a token at the end
  add({kWrite, 0, kQueueFromMemory, 0, 0, 24});           // descriptor 0
  add({kWaitForToken, 16, 0, 1u << 8 | 1u << 16});
  std::vector<uint32_t> program = {0x06030100, 0x00000104, count,
                                   static_cast<uint32_t>(16 + 4 * operations.size())};
  program.insert(program.end(), operations.begin(), operations.end());
  return program;
}

}  // namespace hsa_rt::test
