// NpuMemory: what the NPU can reach while it runs a command of one context: the device aperture, and host
// addresses where the process has pages of a BO of the context's file, whichever descriptor it mapped them
// through (with shared virtual addressing the NPU walks the process's page tables).
//
// Owner: made per command from the file's handles and the job's references. Units: bytes. Errors: false/empty
// for an address outside every BO. Thread-safety: none; one command uses it. Mirrors: the PASID-bound page
// tables (SVA) plus the firmware's host-buffer map.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/xdna/bo.h"
#include "sim/xdna/device_heap.h"

namespace understudy::xdna {

class NpuMemory {
 public:
  NpuMemory(std::shared_ptr<DeviceHeap> heap, const std::vector<XdnaBoRef>& bos,
            const Client* client = nullptr);

  bool read(std::uint64_t address, std::span<std::byte> into) const;
  bool write(std::uint64_t address, std::span<const std::byte> from) const;
  // Is the whole range inside one BO (and writable, when asked)?
  bool covers(std::uint64_t address, std::uint64_t size_bytes, bool for_write) const;

 private:
  struct Region {
    std::uint64_t size_bytes = 0;
    XdnaBoRef bo;
    std::uint64_t bo_offset = 0;
    bool is_user_memory = false;
    bool read_only = false;
  };
  const Region* find(std::uint64_t address, std::uint64_t size_bytes, std::uint64_t* start) const;
  void add(std::uint64_t start, Region region);
  void add_mappings(const std::vector<XdnaBoRef>& bos, const Client& client);
  std::map<std::uint64_t, Region> regions_;
};

}  // namespace understudy::xdna
