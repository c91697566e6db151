// A compiled program: what scripts/oracle makes of the sequence files, as the probe reads it.
//
// The text is one directive a line, tokens separated by one space:
//   sequence NAME
//   step JSON            a new step; JSON is the opening of its transcript line, echoed as it is
//   quiet                the step prints nothing unless it fails
//   buffer B SIZE LABEL  memory for this step, zero-filled, ending at an unmapped page; LABEL prefixes
//   unnamed bytes fill B OFFSET HEX    initial contents set B OFFSET WIDTH VALUE watch B OFFSET WIDTH COUNT
//   KIND NAME   a field to print when the call changed it save VAR B OFFSET WIDTH result VAR           the
//   call's result (a second line takes the second result of a pair) do OPERATION OPERAND... body / end the
//   steps a fork or thread runs
// A VALUE is NUMBER, $VAR, $VAR+NUMBER, &BUFFER or &BUFFER+NUMBER.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace probe {

struct Value {
  std::uint64_t constant = 0;
  int variable = -1;
  int buffer = -1;
};

struct BufferSpec {
  std::size_t size_bytes = 0;
  std::string label;
};

struct Fill {
  std::size_t buffer = 0;
  std::size_t offset = 0;
  std::vector<std::uint8_t> bytes;
};

struct Assignment {
  std::size_t buffer = 0;
  std::size_t offset = 0;
  std::size_t width = 0;
  Value value;
};

// How a changed field is printed: an unsigned or signed number, hexadecimal, text, raw bytes, or the name of
// a value that varies from run to run (the kind is then "name:CLASS").
struct Watch {
  std::size_t buffer = 0;
  std::size_t offset = 0;
  std::size_t width = 0;
  std::size_t count = 0;
  std::string kind;
  std::string name;
};

struct Save {
  int variable = -1;
  std::size_t buffer = 0;
  std::size_t offset = 0;
  std::size_t width = 0;
};

struct Step {
  std::string echo;
  bool quiet = false;
  std::vector<BufferSpec> buffers;
  std::vector<Fill> fills;
  std::vector<Assignment> assignments;
  std::vector<Watch> watches;
  std::vector<Save> saves;
  std::vector<int> results;
  std::string operation;
  std::vector<std::string> operands;
  std::vector<Step> body;
};

struct Sequence {
  std::string name;
  std::vector<Step> steps;
};

// Ends the probe with a message that names the line when the text is not a program: only a broken compiler
// makes one.
std::vector<Sequence> read_program(const std::string& path);

// Ends the probe with a message if `token` is not a value.
Value parse_value(const std::string& token);

}  // namespace probe
