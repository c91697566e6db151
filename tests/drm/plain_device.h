// PlainDevice: the smallest driver that sim/drm allows (think of vgem): objects with pages and nothing else.
// DrmTest: a machine with two of them, and the test process as its client.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>

#include "sim/drm/drm_file.h"
#include "sim/drm/node.h"
#include "sim/drm/syncobj.h"
#include "tests/support/test_client.h"
#include "uapi/drm.h"

namespace understudy::drm {

inline constexpr std::uint32_t kNoSuchHandle = 4711;
inline constexpr std::uint64_t kBadPointer = 8;
inline constexpr std::uint64_t kPageBytes = 4096;

class PlainObject : public GemObject {
 public:
  PlainObject(Device& device, BufferRef buffer)
      : GemObject(device, buffer->size_bytes()), buffer_(std::move(buffer)) {}
  BufferRef buffer() const override { return buffer_; }
  std::string describe() const override { return std::to_string(size_bytes()) + " bytes"; }
  Result<void> may_export() const override { return exportable ? Result<void>() : Errno(EPERM); }

  bool exportable = true;

 private:
  const BufferRef buffer_;
};

class PlainDevice : public Device {
 public:
  explicit PlainDevice(Machine& machine)
      : Device(machine,
               {.name = "plain", .description = "Plain device", .version_major = 1, .version_minor = 2},
               {.modeset = false, .dumb_buffers = true}) {}
  std::string unique() const override { return "pci:0000:03:00.0"; }
  std::span<const IoctlRow> driver_ioctls() const override { return {}; }
  Result<GemRef> import_dma_buf(Call&, DrmFile&, const DmaBufRef& dma_buf) override {
    auto own = std::dynamic_pointer_cast<GemObject>(dma_buf->exporter());
    if (own && &own->device() == this) return own;
    const GemRef imported = std::make_shared<PlainObject>(*this, dma_buf->buffer());
    imported->set_imported_from(dma_buf);
    return imported;
  }
  Result<void> object_opened(DrmFile&, GemObject&) override {
    ++open_handles;
    return {};
  }
  void object_closed(DrmFile&, GemObject&) override { --open_handles; }
  Result<GemRef> create_dumb(Call&, DrmFile&, uapi::drm::drm_mode_create_dumb& args) override {
    args.pitch = args.width * ((args.bpp + 7) / 8);
    args.size = (std::uint64_t{args.pitch} * args.height + kPageBytes - 1) / kPageBytes * kPageBytes;
    return GemRef(std::make_shared<PlainObject>(*this, Buffer::create("plain", args.size)));
  }

  int open_handles = 0;
};

class DrmTest : public testing::Test {
 protected:
  DrmTest()
      : clock_(new ManualClock), machine_(Settings{}, std::unique_ptr<Clock>(clock_)), client_(machine_) {
    device_ = add_device(128, 0);
    other_device_ = add_device(129, 1);
    file_ = client_.open("dri/renderD128");
  }

  std::shared_ptr<PlainDevice> add_device(unsigned render_minor, unsigned card_minor) {
    const auto device = std::make_shared<PlainDevice>(machine_);
    machine_.keep(device);
    const auto make_file = [device](const DrmNode& node, const Caller&) -> Result<std::shared_ptr<DrmFile>> {
      return std::make_shared<DrmFile>(*device, node.type(), node.path(), node.device_number());
    };
    machine_.add_node(std::make_shared<DrmNode>(device, NodeType::kRender, render_minor, make_file));
    machine_.add_node(std::make_shared<DrmNode>(device, NodeType::kPrimary, card_minor, make_file));
    return device;
  }
  static DrmFile& drm(const FileRef& file) { return static_cast<DrmFile&>(*file); }

  std::uint32_t make_handle(const FileRef& file, std::uint64_t size_bytes = kPageBytes) {
    DrmFile& target = drm(file);
    last_object_ = std::make_shared<PlainObject>(target.device(), Buffer::create("plain", size_bytes));
    const test::TestCall call(machine_, CallKind::kIoctl, client_.caller(), file);
    return static_cast<std::uint32_t>(target.handles().create(&call, last_object_).value());
  }
  int close_handle(const FileRef& file, std::uint32_t handle) {
    uapi::drm::drm_gem_close args{handle, 0};
    return client_.ioctl<uapi::drm::GemClose>(file, args);
  }
  // A descriptor, or -errno.
  int export_handle(const FileRef& file, std::uint32_t handle, std::uint32_t flags = O_CLOEXEC | O_RDWR) {
    uapi::drm::drm_prime_handle args{handle, flags, -1};
    const int result = client_.ioctl<uapi::drm::PrimeHandleToFd>(file, args);
    return result < 0 ? result : args.fd;
  }
  // A handle, or -errno.
  int import_fd(const FileRef& file, int fd) {
    uapi::drm::drm_prime_handle args{0, 0, fd};
    const int result = client_.ioctl<uapi::drm::PrimeFdToHandle>(file, args);
    return result < 0 ? result : static_cast<int>(args.handle);
  }
  std::uint32_t make_syncobj(std::uint32_t flags = 0) {
    uapi::drm::drm_syncobj_create args{0, flags};
    EXPECT_EQ(client_.ioctl<uapi::drm::SyncobjCreate>(file_, args), 0);
    return args.handle;
  }
  SyncobjRef syncobj(std::uint32_t handle) { return drm(file_).syncobjs().find(handle); }

  ManualClock* const clock_;
  Machine machine_;
  test::TestClient client_;
  std::shared_ptr<PlainDevice> device_;
  std::shared_ptr<PlainDevice> other_device_;
  FileRef file_;
  std::shared_ptr<PlainObject> last_object_;
};

}  // namespace understudy::drm
