// XdnaBo: amdxdna's buffer object: SHARE (also CMD), DEV_HEAP, DEV, pinned user memory, or an import.
//
// Owner: shared (see drm::GemObject); DEV BOs give their device address back to their file's aperture when
// they die. Units: bytes; addresses in the client's space (vaddr) or the NPU's (device address). Errors: as
// the factories say. Thread-safety: immutable but for the mapping record, which locks. Mirrors:
// amdxdna_gem.h: struct amdxdna_gem_obj.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/buffer.h"
#include "sim/core/client.h"
#include "sim/drm/gem.h"

namespace understudy::xdna {

class Npu;
class XdnaFile;

// AMDXDNA_INVALID_ADDR: not mapped, no such address.
inline constexpr std::uint64_t kInvalidAddress = ~std::uint64_t{0};

enum class BoType : std::uint8_t { kShare, kHeap, kDev };

struct UserPages {
  ClientRef client;
  struct Range {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };
  std::vector<Range> ranges;
  bool read_only = false;
};

class XdnaBo : public drm::GemObject {
 public:
  // `buffer` is null for DEV BOs and pinned user memory.
  XdnaBo(Npu& npu, BoType type, std::uint64_t size_bytes, BufferRef buffer);
  ~XdnaBo() override;

  BoType type() const { return type_; }
  // CMD, heap and DEV: counted as internal_usage.
  bool internal() const { return internal_; }
  void mark_internal() { internal_ = true; }

  BufferRef buffer() const override { return buffer_; }
  std::string describe() const override;
  Result<void> may_export() const override;

  void set_user_pages(UserPages pages) { user_pages_ = std::move(pages); }
  const std::optional<UserPages>& user_pages() const { return user_pages_; }

  // Device address of a heap chunk or DEV BO.
  std::uint64_t device_address() const { return device_address_; }
  void place_heap_chunk(std::uint64_t device_address);
  void place_in_aperture(std::weak_ptr<class DeviceHeap> heap, std::uint64_t device_address);

  // The first client mapping made through the accel fd; all ones before it and after the last mapping is
  // gone. Read it before each new mapping is made, so that an address whose mappings are gone is forgotten in
  // time.
  void note_mapped(std::uint64_t address);
  std::uint64_t mapped_address() const;

  // Debug buffers are assigned to at most one hwctx (0: none).
  std::uint32_t assigned_context() const;
  void assign_context(std::uint32_t context_id);

 private:
  const BoType type_;
  const BufferRef buffer_;
  bool internal_;
  std::optional<UserPages> user_pages_;
  std::uint64_t device_address_ = kInvalidAddress;
  std::weak_ptr<class DeviceHeap> heap_;
  mutable std::mutex mutex_;
  mutable std::uint64_t mapped_address_ = kInvalidAddress;  // guarded by mutex_
  std::uint32_t assigned_context_ = 0;                      // guarded by mutex_
};

using XdnaBoRef = std::shared_ptr<XdnaBo>;

}  // namespace understudy::xdna
