#include "program.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

namespace probe {
namespace {

[[noreturn]] void malformed(const std::string& what) {
  std::fprintf(stderr, "oracle_probe: malformed program: %s\n", what.c_str());
  std::exit(2);
}

std::uint64_t parse_number(std::string_view text) {
  int base = 10;
  std::string_view digits = text;
  if (digits.starts_with("0x")) {
    base = 16;
    digits.remove_prefix(2);
  }
  std::uint64_t number = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) malformed(std::string(text));
  return number;
}

std::vector<std::uint8_t> parse_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

class Reader {
 public:
  explicit Reader(const std::string& path) : in_(path) {
    if (!in_) malformed("cannot open " + path);
  }

  std::vector<Sequence> read() {
    std::vector<Sequence> sequences;
    while (next_line()) {
      if (directive_ == "sequence") {
        sequences.push_back({rest_, {}});
      } else if (directive_ == "step" && !sequences.empty()) {
        sequences.back().steps.push_back(read_step());
      } else {
        malformed(directive_ + " " + rest_);
      }
    }
    return sequences;
  }

 private:
  bool next_line() {
    std::string line;
    if (!std::getline(in_, line)) return false;
    const std::size_t space = line.find(' ');
    directive_ = line.substr(0, space);
    rest_ = space == std::string::npos ? "" : line.substr(space + 1);
    return true;
  }

  std::string token(std::istringstream& tokens) {
    std::string text;
    if (!(tokens >> text)) malformed(directive_ + " " + rest_);
    return text;
  }

  std::size_t number(std::istringstream& tokens) { return parse_number(token(tokens)); }

  // Called on a "step" line; consumes up to and including its "do" and, if one follows, its body.
  Step read_step() {
    Step step;
    step.echo = rest_;
    while (next_line()) {
      std::istringstream tokens(rest_);
      if (directive_ == "quiet") {
        step.quiet = true;
      } else if (directive_ == "buffer") {
        if (number(tokens) != step.buffers.size()) malformed("buffers out of order: " + rest_);
        const std::size_t size_bytes = number(tokens);
        std::string label;
        tokens >> label;
        step.buffers.push_back({size_bytes, label});
      } else if (directive_ == "fill") {
        const std::size_t buffer = number(tokens);
        const std::size_t offset = number(tokens);
        step.fills.push_back({buffer, offset, parse_hex(token(tokens))});
      } else if (directive_ == "set") {
        const std::size_t buffer = number(tokens);
        const std::size_t offset = number(tokens);
        const std::size_t width = number(tokens);
        step.assignments.push_back({buffer, offset, width, parse_value(token(tokens))});
      } else if (directive_ == "watch") {
        Watch watch;
        watch.buffer = number(tokens);
        watch.offset = number(tokens);
        watch.width = number(tokens);
        watch.count = number(tokens);
        watch.kind = token(tokens);
        watch.name = token(tokens);
        step.watches.push_back(std::move(watch));
      } else if (directive_ == "save") {
        const int variable = static_cast<int>(number(tokens));
        const std::size_t buffer = number(tokens);
        const std::size_t offset = number(tokens);
        step.saves.push_back({variable, buffer, offset, number(tokens)});
      } else if (directive_ == "result") {
        step.results.push_back(static_cast<int>(number(tokens)));
      } else if (directive_ == "do") {
        step.operation = token(tokens);
        for (std::string operand; tokens >> operand;) step.operands.push_back(operand);
        if (in_.peek() == 'b') read_body(step);
        return step;
      } else {
        malformed(directive_ + " " + rest_);
      }
    }
    malformed("a step without \"do\"");
  }

  void read_body(Step& step) {
    next_line();
    if (directive_ != "body") malformed(directive_);
    while (next_line() && directive_ == "step") step.body.push_back(read_step());
    if (directive_ != "end") malformed("a body without \"end\"");
  }

  std::ifstream in_;
  std::string directive_;
  std::string rest_;
};

}  // namespace

Value parse_value(const std::string& token) {
  Value value;
  std::string_view text = token;
  if (text.starts_with('$') || text.starts_with('&')) {
    const std::size_t plus = text.find('+');
    const auto index =
        static_cast<int>(parse_number(text.substr(1, plus == text.npos ? text.npos : plus - 1)));
    (text[0] == '$' ? value.variable : value.buffer) = index;
    if (plus != text.npos) value.constant = parse_number(text.substr(plus + 1));
  } else {
    value.constant = parse_number(text);
  }
  return value;
}

std::vector<Sequence> read_program(const std::string& path) {
  return Reader(path).read();
}

}  // namespace probe
