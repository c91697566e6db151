// A node that behaves in every way a door has to carry: flat, deep, blocking, failing and descriptor-handing
// ioctls, mmap, read and write.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>
#include <memory>

#include "sim/core/machine.h"

namespace understudy::test {

struct EchoArgs {
  std::uint64_t value;
  std::uint64_t doubled;  // out
};
struct DeepArgs {
  std::uint64_t pointer;  // of `count` 32-bit numbers, each of which is incremented
  std::uint32_t count;
  std::uint32_t sum;  // out, of the numbers before
};
struct BlockArgs {
  std::uint32_t woken;  // out
  std::uint32_t padding;
};
struct HandFdArgs {
  std::uint64_t size_bytes;
  std::int32_t fd;  // out
  std::uint32_t padding;
};
struct ExportArgs {
  std::uint64_t size_bytes;
  std::int32_t fd;  // out
  std::uint32_t close_on_exec;
};
struct WhoArgs {
  std::uint32_t pid;  // out
  std::uint32_t tid;
  std::uint64_t client_id;
};
struct FailArgs {
  std::uint32_t error;
  std::uint32_t progress;  // out, although the call fails
};

#define TEST_IOC_ECHO _IOWR('T', 1, ::understudy::test::EchoArgs)
#define TEST_IOC_DEEP _IOWR('T', 2, ::understudy::test::DeepArgs)
#define TEST_IOC_BLOCK _IOWR('T', 3, ::understudy::test::BlockArgs)
#define TEST_IOC_WAKE _IO('T', 4)
#define TEST_IOC_HAND_FD _IOWR('T', 5, ::understudy::test::HandFdArgs)
#define TEST_IOC_WHO _IOR('T', 6, ::understudy::test::WhoArgs)
#define TEST_IOC_FAIL _IOWR('T', 7, ::understudy::test::FailArgs)
#define TEST_IOC_DROP _IO('T', 8)                                       // never answered by the handler
#define TEST_IOC_MESSAGE _IO('T', 9)                                    // makes "hello" readable
#define TEST_IOC_EXPORT _IOWR('T', 10, ::understudy::test::ExportArgs)  // a dma-buf

// Adds the node "test" and sys/class/test/* to a machine. `files_open` counts open files, for tests in one
// process.
struct TestDevice {
  std::atomic<int> files_open{0};
  std::atomic<int> calls_blocked{0};
};
std::shared_ptr<TestDevice> add_test_device(Machine& machine);

// The same behaviour under a name that the preload shim takes over, "accel/accel0", with the sysfs entries of
// a PCI device at kTestPciAddress.
inline constexpr char kTestPciAddress[] = "0000:c3:00.0";
std::shared_ptr<TestDevice> add_test_accelerator(Machine& machine);

}  // namespace understudy::test
