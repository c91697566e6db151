// IdTable: numbers handed out lowest-first and what they stand for.
//
// Owner: whoever numbers things (handles per process and GPU, events, queues). Units: none. Errors: allocate
// returns nothing when the range is full. Thread-safety: none; the owner locks. Cost: logarithmic in the
// number of free gaps. Mirrors: lib/idr.c: idr_alloc, idr_find, idr_remove.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace understudy::kfd {

template <typename T>
class IdTable {
 public:
  // Numbers from `first` to `last` inclusive.
  IdTable(std::uint32_t first, std::uint32_t last) : next_(first), last_(last) {}

  std::optional<std::uint32_t> allocate(T value) {
    const std::optional<std::uint32_t> id = take_number();
    if (id) used_.emplace(*id, std::move(value));
    return id;
  }
  T* find(std::uint32_t id) {
    const auto found = used_.find(id);
    return found == used_.end() ? nullptr : &found->second;
  }
  std::optional<T> remove(std::uint32_t id) {
    const auto found = used_.find(id);
    if (found == used_.end()) return std::nullopt;
    std::optional<T> value(std::move(found->second));
    used_.erase(found);
    free_.insert(id);
    return value;
  }
  // Everything, leaving the table empty.
  std::map<std::uint32_t, T> take_all() {
    for (const auto& [id, value] : used_) free_.insert(id);
    return std::exchange(used_, {});
  }
  std::size_t size() const { return used_.size(); }
  const std::map<std::uint32_t, T>& all() const { return used_; }
  std::map<std::uint32_t, T>& all() { return used_; }

 private:
  std::optional<std::uint32_t> take_number() {
    if (!free_.empty()) return free_.extract(free_.begin()).value();
    if (exhausted_) return std::nullopt;
    const std::uint32_t id = next_;
    if (id == last_) {
      exhausted_ = true;
    } else {
      ++next_;
    }
    return id;
  }

  std::uint32_t next_;
  const std::uint32_t last_;
  bool exhausted_ = false;
  std::set<std::uint32_t> free_;  // below next_
  std::map<std::uint32_t, T> used_;
};

}  // namespace understudy::kfd
