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
  explicit TestFile(std::shared_ptr<TestDevice> device)
      : device_(std::move(device)), buffer_(Buffer::create("test", 4096)) {
    ++device_->files_open;
  }

  std::string label() const override { return "test"; }
  dev_t device_number() const override { return makedev(240, 7); }
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
  explicit TestNode(std::shared_ptr<TestDevice> device) : device_(std::move(device)) {}
  std::string path() const override { return "test/node0"; }
  dev_t device_number() const override { return makedev(240, 7); }
  Result<FileRef> open(const Caller&, int) override { return FileRef(std::make_shared<TestFile>(device_)); }

 private:
  const std::shared_ptr<TestDevice> device_;
};

}  // namespace

std::shared_ptr<TestDevice> add_test_device(Machine& machine) {
  auto device = std::make_shared<TestDevice>();
  machine.add_node(std::make_shared<TestNode>(device));
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

}  // namespace understudy::test
