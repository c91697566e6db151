#include "tests/door/test_node.h"

#include <sys/sysmacros.h>

#include <cstring>
#include <numeric>

#include "sim/core/buffer.h"
#include "sim/core/ioctl_table.h"

namespace understudy::test {
namespace {

template <std::uint32_t Cmd>
const uapi::IoctlDescriptor& descriptor_of() {
  static constexpr uapi::IoctlDescriptor kDescriptor{.name = "TEST_IOC",
                                                     .interface = "test",
                                                     .nr = uapi::cmd_nr(Cmd),
                                                     .cmd = Cmd,
                                                     .dir = uapi::cmd_dir(Cmd),
                                                     .size = uapi::cmd_size(Cmd),
                                                     .args = nullptr,
                                                     .flags = uapi::IoctlFlags::kNone,
                                                     .has_handler = true};
  return kDescriptor;
}

struct NoArgs {};

class TestFile : public File {
 public:
  TestFile(std::shared_ptr<TestDevice> device, dev_t number)
      : device_(std::move(device)), number_(number), buffer_(Buffer::create("test", 4096)) {
    ++device_->files_open;
  }

  std::string label() const override { return "test"; }
  dev_t device_number() const override { return number_; }
  bool has_read() const override { return true; }
  void release() override { --device_->files_open; }

  Result<MmapTarget> mmap(Call&, const MmapRequest& request) override {
    if (request.length_bytes > buffer_->size_bytes()) return Errno(EINVAL);
    MmapTarget target;
    target.fd = TRY(buffer_->open_description(Hold::kMapLockByte, true));
    return target;
  }

  Result<std::size_t> write(const Caller&, std::span<const std::byte> bytes) override {
    queue_read({bytes.begin(), bytes.end()});
    return bytes.size();
  }

  void ioctl(const CallRef& call) override;

  Outcome echo(Call&, EchoArgs& args) {
    args.doubled = args.value * 2;
    return 0;
  }

  Outcome deep(Call& call, DeepArgs& args) {
    if (args.count > 1 << 20) return Errno(EINVAL);
    auto numbers = call.memory().read_array<std::uint32_t>(args.pointer, args.count);
    if (!numbers) return numbers.error();
    args.sum = std::accumulate(numbers.value().begin(), numbers.value().end(), 0u);
    for (std::uint32_t& number : numbers.value()) ++number;
    return call.memory().write(args.pointer, std::as_bytes(std::span(numbers.value())));
  }

  Outcome block(Call& call, BlockArgs&) {
    const CallRef self = call.shared_from_this();
    {
      const std::lock_guard lock(mutex_);
      blocked_.push_back(self);
    }
    ++device_->calls_blocked;
    call.on_cancel([file = std::static_pointer_cast<TestFile>(call.file()), weak = std::weak_ptr(self)] {
      if (const CallRef cancelled = weak.lock()) file->end_block(cancelled, Errno(EINTR));
    });
    return Outcome::later();
  }

  void end_block(const CallRef& call, Outcome outcome) {
    {
      const std::lock_guard lock(mutex_);
      if (std::erase(blocked_, call) == 0) return;
    }
    --device_->calls_blocked;
    call->finish(outcome);
  }

  Outcome wake(Call&, NoArgs&) {
    std::vector<CallRef> blocked;
    {
      const std::lock_guard lock(mutex_);
      blocked = blocked_;
    }
    for (const CallRef& call : blocked) {
      reinterpret_cast<BlockArgs*>(call->arguments.data())->woken = 1;
      end_block(call, 0);
    }
    return static_cast<int>(blocked.size());
  }

  Outcome hand_fd(Call& call, HandFdArgs& args) {
    if (args.size_bytes == 0 || args.size_bytes % 4096 != 0) return Errno(EINVAL);
    const auto buffer = Buffer::create("handed", args.size_bytes);
    Result<UniqueFd> fd = buffer->open_description(Hold::kDmaBufLockByte, true);
    if (!fd) return fd.error();
    return call.hand_fd(std::move(fd).value(), offsetof(HandFdArgs, fd));
  }

  Outcome export_dma_buf(Call& call, ExportArgs& args) {
    const DmaBufRef dma_buf = TRY(call.machine().dmabufs().export_buffer(
        &call, nullptr, Buffer::create("exported", args.size_bytes), true));
    return call.hand_fd(TRY(dma_buf->open_descriptor()), offsetof(ExportArgs, fd), args.close_on_exec != 0);
  }

  Outcome who(Call& call, WhoArgs& args) {
    args = {static_cast<std::uint32_t>(call.client().pid()), static_cast<std::uint32_t>(call.caller().tid),
            call.client().id()};
    return 0;
  }

  Outcome fail(Call&, FailArgs& args) {
    args.progress = 3;
    return Errno(static_cast<int>(args.error));
  }

  Outcome drop(Call&, NoArgs&) { return Outcome::later(); }

  Outcome message(Call&, NoArgs&) {
    const std::string_view text = "hello";
    const auto bytes = std::as_bytes(std::span(text));
    queue_read({bytes.begin(), bytes.end()});
    return 0;
  }

 private:
  static const IoctlRow kRows[];
  const std::shared_ptr<TestDevice> device_;
  const dev_t number_;
  const BufferRef buffer_;
  std::mutex mutex_;
  std::vector<CallRef> blocked_;  // guarded by mutex_
};

template <std::uint32_t Cmd, typename Args, Outcome (TestFile::*handler)(Call&, Args&)>
constexpr IoctlRow test_row() {
  return {uapi::cmd_nr(Cmd), &descriptor_of<Cmd>, [](File& file, Call& call) {
            return (static_cast<TestFile&>(file).*handler)(call,
                                                           *reinterpret_cast<Args*>(call.arguments.data()));
          }};
}

const IoctlRow TestFile::kRows[] = {
    test_row<TEST_IOC_ECHO, EchoArgs, &TestFile::echo>(),
    test_row<TEST_IOC_DEEP, DeepArgs, &TestFile::deep>(),
    test_row<TEST_IOC_BLOCK, BlockArgs, &TestFile::block>(),
    test_row<TEST_IOC_WAKE, NoArgs, &TestFile::wake>(),
    test_row<TEST_IOC_HAND_FD, HandFdArgs, &TestFile::hand_fd>(),
    test_row<TEST_IOC_WHO, WhoArgs, &TestFile::who>(),
    test_row<TEST_IOC_FAIL, FailArgs, &TestFile::fail>(),
    test_row<TEST_IOC_DROP, NoArgs, &TestFile::drop>(),
    test_row<TEST_IOC_MESSAGE, NoArgs, &TestFile::message>(),
    test_row<TEST_IOC_EXPORT, ExportArgs, &TestFile::export_dma_buf>(),
};

void TestFile::ioctl(const CallRef& call) {
  for (const IoctlRow& row : kRows) {
    if (row.nr != uapi::cmd_nr(call->command)) continue;
    const std::size_t size = uapi::cmd_size(call->command);
    const bool in = call->command & IOC_IN, out = call->command & IOC_OUT;
    run_row(call, row, {std::max<std::size_t>(size, 64), in ? size : 0, out ? size : 0});
    return;
  }
  refuse(call, Errno(ENOTTY));
}

class TestNode : public Node {
 public:
  TestNode(std::shared_ptr<TestDevice> device, std::string path, dev_t number)
      : device_(std::move(device)), path_(std::move(path)), number_(number) {}
  std::string path() const override { return path_; }
  dev_t device_number() const override { return number_; }
  Result<FileRef> open(const Caller&, int) override {
    return FileRef(std::make_shared<TestFile>(device_, number_));
  }

 private:
  const std::shared_ptr<TestDevice> device_;
  const std::string path_;
  const dev_t number_;
};

}  // namespace

std::shared_ptr<TestDevice> add_test_device(Machine& machine) {
  auto device = std::make_shared<TestDevice>();
  machine.add_node(std::make_shared<TestNode>(device, "test/node0", makedev(240, 7)));
  machine.sysfs().attribute("devices/test/name", "test device\n");
  machine.sysfs().attribute("devices/test/files_open", [device] {
    return Result<std::string>(std::to_string(device->files_open) + "\n");
  });
  machine.sysfs().link_to("class/test/node0", "devices/test");
  machine.sysfs().attribute("module/test/initstate", "live\n");
  machine.sysfs().attribute("module/test/coresize", "4096\n");
  machine.sysfs().directory("module/builtin");
  return device;
}

std::shared_ptr<TestDevice> add_test_accelerator(Machine& machine) {
  auto device = std::make_shared<TestDevice>();
  machine.add_node(std::make_shared<TestNode>(device, "accel/accel0", makedev(261, 0)));
  SysfsTree& sysfs = machine.sysfs();
  const std::string pci = std::string("devices/pci0000:c0/") + kTestPciAddress;
  sysfs.attribute(pci + "/vendor", "0x1022\n");
  sysfs.attribute(pci + "/busy_percent", [] { return Result<std::string>("17\n"); });
  sysfs.attribute(pci + "/accel/accel0/dev", "261:0\n");
  sysfs.link_to(pci + "/accel/accel0/device", pci);
  sysfs.link_to("class/accel/accel0", pci + "/accel/accel0");
  sysfs.link_to("dev/char/261:0", pci + "/accel/accel0");
  sysfs.link_to(std::string("bus/pci/devices/") + kTestPciAddress, pci);
  sysfs.attribute("module/amdxdna/initstate", "live\n");
  return device;
}

}  // namespace understudy::test
