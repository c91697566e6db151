// HandleTable<T>: objects behind 64-bit handles that are {driver, generation, slot}. No address, no
// allocation and no page stands behind a handle, so handles of different drivers never collide and a handle
// that was given back is recognised by its generation for ever: a slot whose generations are used up is not
// used again.
//
//   bits 63..60 driver (never 0, so no handle is 0)   59..28 generation   27..0 slot
//
// Not thread-safe; the owner's lock guards it. Pointers stay valid until the entry is erased.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/driver/driver.h"

namespace hsa_rt {

template <class T>
class HandleTable {
 public:
  static constexpr uint64_t kMaxSlots = uint64_t{1} << 28;

  // 0 when all slots are in use.
  uint64_t insert(DriverId driver, T value) {
    uint64_t slot = 0;
    if (!free_slots_.empty()) {
      slot = free_slots_.back();
      free_slots_.pop_back();
    } else {
      if (slots_.size() == kMaxSlots) return 0;
      slot = slots_.size();
      slots_.emplace_back();
      free_slots_.reserve(slots_.size());  // so that erase() cannot fail
    }
    slots_[slot].value.emplace(std::move(value));
    slots_[slot].driver = driver;
    return pack(driver, slots_[slot].generation, slot);
  }

  T* find(uint64_t handle) {
    const uint64_t slot = handle & (kMaxSlots - 1);
    if (slot >= slots_.size()) return nullptr;
    Slot& entry = slots_[slot];
    if (!entry.value || handle != pack(entry.driver, entry.generation, slot)) return nullptr;
    return &*entry.value;
  }

  // Requires a handle that find() knows.
  void erase(uint64_t handle) {
    const uint64_t slot = handle & (kMaxSlots - 1);
    slots_[slot].value.reset();
    if (++slots_[slot].generation != 0) free_slots_.push_back(slot);
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.value) visit(*slot.value);
    }
  }

 private:
  struct Slot {
    std::optional<T> value;
    uint32_t generation = 0;
    DriverId driver = DriverId::kHost;
  };

  static constexpr uint64_t pack(DriverId driver, uint32_t generation, uint64_t slot) {
    return static_cast<uint64_t>(driver) << 60 | static_cast<uint64_t>(generation) << 28 | slot;
  }

  std::deque<Slot> slots_;
  std::vector<uint64_t> free_slots_;
};

}  // namespace hsa_rt
