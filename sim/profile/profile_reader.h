// Reader: a profile file (TOML), read key by key with checks; the first thing wrong is kept as one line that
// names file, line, what is wrong and what is accepted.
//
//   Reader reader(path, directories);
//   Table root = reader.root();
//   memory_bytes = root.table("memory").number("vram_bytes", 1, kMaxVramBytes);
//   if (auto why = reader.problem()) ...
//
// Reading goes on after a mistake with some accepted value, so that callers need no branches.
//
// A file may say based_on = "NAME": then it is read as that profile with the differences it lists. Tables are
// merged key by key, lists are replaced as a whole.
//
// Owner: the caller; tables refer to their reader. Units: none. Errors: problem(). Thread-safety: none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/profile/profile_files.h"

namespace understudy::profile {

struct ReaderState;

class Table {
 public:
  bool has(std::string_view key) const;
  std::uint64_t number(std::string_view key, std::uint64_t min, std::uint64_t max) const;
  std::uint64_t number_or(std::string_view key, std::uint64_t fallback, std::uint64_t min,
                          std::uint64_t max) const;
  std::vector<std::uint64_t> numbers(std::string_view key, std::uint64_t min, std::uint64_t max) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  std::vector<std::string> texts(std::string_view key) const;
  // The index in `choices` of the text under `key`.
  std::size_t choice(std::string_view key, const std::vector<std::string>& choices) const;
  // [key]; one without any key when it is missing, after noting that.
  Table table(std::string_view key) const;
  std::optional<Table> optional_table(std::string_view key) const;
  // [[key]]
  std::vector<Table> tables(std::string_view key) const;
  // Says that what is under `key` is wrong in a way that only the caller can see.
  void reject(std::string_view key, std::string_view what) const;

 private:
  friend class Reader;
  Table(ReaderState& state, const void* toml_table, std::string name)
      : state_(&state), toml_table_(toml_table), name_(std::move(name)) {}
  std::string full_name(std::string_view key) const;

  ReaderState* state_;
  const void* toml_table_;
  std::string name_;  // "memory", empty for the root
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, const Directories& directories);
  ~Reader();
  Reader(const Reader&) = delete;

  Table root() const;
  // The first mistake, or the first key that nobody asked for.
  std::optional<std::string> problem() const;

 private:
  const std::unique_ptr<ReaderState> state_;
};

// What the file (or what it is based on) says under `kind`; empty if it cannot be read.
std::string kind_of_file(const std::filesystem::path& path, const Directories& directories);

}  // namespace understudy::profile
