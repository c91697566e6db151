// The two kinds of pages a guest hands to the device beside the driver's own: a buffer's, and a process's.
//
// Owner: placements and the device's backings share them. Units: bytes. Errors: a short count where user
// pages have gone or forbid the access. Thread-safety: all methods from any thread. Mirrors: the shmem pages
// of drm_gem_shmem_helper.c, and pinned user pages.
#pragma once

#include <cstdint>
#include <span>

#include "sim/core/buffer.h"
#include "sim/core/client.h"
#include "sim/virtio_gpu/wire/guest_memory.h"

namespace understudy::virtio_gpu {

class BufferPages : public GuestPages {
 public:
  explicit BufferPages(BufferRef buffer) : buffer_(std::move(buffer)) {}
  std::uint64_t size_bytes() const override { return buffer_->size_bytes(); }
  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> into) override;
  std::size_t write(std::uint64_t offset_bytes, std::span<const std::byte> from) override;
  const BufferRef& buffer() const { return buffer_; }

 private:
  const BufferRef buffer_;
};

// Whole pages of a process, reached where they are: what the process unmaps is gone for the device too, where
// a real pin would keep the old page.
class UserPages : public GuestPages {
 public:
  // `charge` is given back when the pages are let go.
  UserPages(ClientRef client, std::uint64_t address, std::uint64_t size_bytes, bool read_only,
            std::shared_ptr<void> charge)
      : client_(std::move(client)),
        address_(address),
        size_bytes_(size_bytes),
        read_only_(read_only),
        charge_(std::move(charge)) {}
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::size_t read(std::uint64_t offset_bytes, std::span<std::byte> into) override;
  std::size_t write(std::uint64_t offset_bytes, std::span<const std::byte> from) override;
  bool read_only() const { return read_only_; }

 private:
  const ClientRef client_;
  const std::uint64_t address_;
  const std::uint64_t size_bytes_;
  const bool read_only_;
  const std::shared_ptr<void> charge_;
};

}  // namespace understudy::virtio_gpu
