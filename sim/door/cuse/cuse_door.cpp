#include "sim/door/cuse/cuse_door.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "sim/door/fuse/fuse_api.h"
#include "sim/door/fuse/node_handle.h"

#include <cuse_lowlevel.h>

namespace understudy::door {
namespace {

constexpr unsigned kThreadsPerDevice = 2;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kPause{1};

bool exists_in_dev(const NodeRef& node) {
  struct stat info {};
  return ::stat(("/dev/" + node->path()).c_str(), &info) == 0;
}

}  // namespace

// One character device: a session of its own with the kernel.
class CuseDoor::Device : public SessionData {
 public:
  Device(Machine& machine, NodeRef node, ShimlessClients& shimless)
      : SessionData(machine), node_(std::move(node)), shimless_(shimless) {}

  ~Device() {
    threads_.reset();
    if (!interrupts.interrupt_all(kPatience)) (void)session_.release();
  }

  Result<void> start(std::string* why) {
    const std::string name = "DEVNAME=" + node_->path();
    const char* info[] = {name.c_str()};
    cuse_info device{};
    device.dev_major = major(node_->device_number());
    device.dev_minor = minor(node_->device_number());
    device.dev_info_argc = 1;
    device.dev_info_argv = info;
    // In the foreground: the server is a daemon already.
    const char* arguments[] = {"understudy", "-f", nullptr};
    int multithreaded = 0;
    SessionData* const user_data = this;
    session_.reset(::cuse_lowlevel_setup(2, const_cast<char**>(arguments), &device, &kOperations,
                                         &multithreaded, user_data));
    if (!session_) {
      *why = "cannot make /dev/" + node_->path() + " through /dev/cuse";
      return Errno(ENODEV);
    }
    // Set up by the call above, for a program that has nothing but its session.
    ::fuse_remove_signal_handlers(session_.get());
    threads_ = std::make_unique<SessionThreads>(session_.get(), kThreadsPerDevice);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!exists_in_dev(node_)) {
      if (::fuse_session_exited(session_.get()) || std::chrono::steady_clock::now() > deadline) {
        *why = "the kernel did not make /dev/" + node_->path() + " (is its driver loaded?)";
        return Errno(EBUSY);
      }
      std::this_thread::sleep_for(kPause);
    }
    return {};
  }

 private:
  struct Teardown {
    void operator()(fuse_session* session) const { ::cuse_lowlevel_teardown(session); }
  };

  static Device& of(fuse_req_t request) {
    return static_cast<Device&>(*static_cast<SessionData*>(::fuse_req_userdata(request)));
  }

  static void open(fuse_req_t request, fuse_file_info* info) {
    Device& device = of(request);
    const Result<Caller> caller = caller_of(device.machine, request, true);
    if (!caller) return;
    const Result<FileRef> file = device.machine.open(*device.node_, caller.value(), info->flags);
    if (!file) {
      ::fuse_reply_err(request, file.error().number());
      return;
    }
    device.machine.files().add(file.value());
    device.shimless_.opened(caller.value().client, device.node_->path());
    info->fh = device.handles_.add(std::make_shared<NodeHandle>(device, file.value()));
    info->direct_io = 1;
    if (::fuse_reply_open(request, info) != 0) device.handles_.take(info->fh)->closed();
  }

  static void release(fuse_req_t request, fuse_file_info* info) {
    of(request).handles_.take(info->fh)->closed();
    ::fuse_reply_err(request, 0);
  }

  static void read(fuse_req_t request, std::size_t size, off_t offset, fuse_file_info* info) {
    of(request).handles_.find(info->fh)->read(request, size, offset, (info->flags & O_NONBLOCK) != 0);
  }

  static void write(fuse_req_t request, const char* data, std::size_t size, off_t offset,
                    fuse_file_info* info) {
    of(request).handles_.find(info->fh)->write(request, std::as_bytes(std::span(data, size)), offset);
  }

  static void ioctl(fuse_req_t request, int command, void* argument, fuse_file_info* info, unsigned,
                    const void* in, std::size_t in_bytes, std::size_t out_bytes) {
    of(request).handles_.find(info->fh)->ioctl(
        request, {static_cast<std::uint32_t>(command), reinterpret_cast<std::uint64_t>(argument),
                  std::span(static_cast<const std::byte*>(in), in_bytes), out_bytes});
  }

  static void poll(fuse_req_t request, fuse_file_info* info, fuse_pollhandle* waiter) {
    of(request).handles_.find(info->fh)->poll(request, waiter);
  }

  static constexpr cuse_lowlevel_ops table() {
    cuse_lowlevel_ops operations{};
    operations.open = &open;
    operations.read = &read;
    operations.write = &write;
    operations.release = &release;
    operations.ioctl = &ioctl;
    operations.poll = &poll;
    return operations;
  }
  static const cuse_lowlevel_ops kOperations;

  const NodeRef node_;
  ShimlessClients& shimless_;
  HandleTable handles_;
  std::unique_ptr<fuse_session, Teardown> session_;
  std::unique_ptr<SessionThreads> threads_;
};

const cuse_lowlevel_ops CuseDoor::Device::kOperations = table();

CuseDoor::CuseDoor(Machine& machine, std::unique_ptr<FuseDoor> tree_door)
    : Door(machine), tree_door_(std::move(tree_door)), shimless_(machine) {}

CuseDoor::~CuseDoor() = default;

Result<std::unique_ptr<CuseDoor>> CuseDoor::create(Machine& machine, const std::string& mount_point,
                                                   std::string* why) {
  if (::access("/dev/cuse", R_OK | W_OK) != 0) {
    *why = std::string("/dev/cuse: ") + std::strerror(errno);
    return last_errno();
  }
  std::unique_ptr<CuseDoor> door(new CuseDoor(machine, TRY(FuseDoor::mount(machine, mount_point, why))));
  for (const NodeRef& node : machine.nodes()) TRY(door->add_device(machine, node, why));
  return door;
}

Result<void> CuseDoor::add_device(Machine& machine, const NodeRef& node, std::string* why) {
  if (exists_in_dev(node)) {
    *why = "this host has a /dev/" + node->path() + " already";
    return Errno(EEXIST);
  }
  devices_.push_back(std::make_unique<Device>(machine, node, shimless_));
  return devices_.back()->start(why);
}

std::vector<ShimlessClient> CuseDoor::shimless_clients() const {
  std::vector<ShimlessClient> clients = tree_door_->shimless_clients();
  for (ShimlessClient& client : shimless_.all()) clients.push_back(std::move(client));
  return clients;
}

}  // namespace understudy::door
