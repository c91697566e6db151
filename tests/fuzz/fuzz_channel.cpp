// The channel between shim and server: a client that sends whatever frames the input says. Afterwards the
// server must still serve a client with manners.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/door/channel/server.h"
#include "sim/door/socket/socket_door.h"
#include "tests/door/channel_client.h"
#include "tests/door/scratch.h"
#include "tests/door/test_node.h"
#include "tests/fuzz/values.h"

namespace understudy::fuzz {
namespace {

using namespace door;

constexpr unsigned kMaxFrames = 32;
constexpr int kPatienceMs = 20'000;

class HostileClient {
 public:
  HostileClient() {
    test::add_test_device(machine_);
    std::string why;
    std::filesystem::create_directory(scratch_.path() + "/fs");
    door_ = SocketDoor::create(machine_, scratch_.path() + "/fs", &why).value();
    server_ = ChannelServer::create(machine_, *door_, path()).value();
    // Whatever addresses the frames name, they are the arena's or nobody's.
    client_ = machine_.clients().resolve(::getpid()).value();
    client_->use_memory(arena_.memory());
  }

  void run(Input& input) {
    {
      test::ChannelClient hostile(path());
      if (input.byte() % 8 != 0) send_hello(hostile);
      for (unsigned frame = 0; frame < kMaxFrames && !input.empty(); ++frame) send_frame(input, hostile);
    }
    expect_service();
  }

 private:
  std::string path() const { return scratch_.path() + "/ctl"; }

  void send_hello(test::ChannelClient& client) {
    RequestHeader hello = test::ChannelClient::request(kHello);
    hello.command = kProtocolVersion;
    hello.flags = kMemoryFallback;
    hello.address = arena_.scratch(0);
    (void)client_->memory().write_value(hello.address, kMemoryProbe);
    client.send(hello);
    take_answers(client, kPatienceMs);
  }
  void send_frame(Input& input, test::ChannelClient& client) {
    RequestHeader header{};
    const std::uint8_t how = input.byte();
    if (how < 8) {
      input.take(std::as_writable_bytes(std::span(&header, 1)));
    } else {
      header.kind = 1 + input.byte() % (how < 16 ? 80 : 14);
      header.flags = input.byte() % 8;
      header.call_id = 1 + input.byte() % 8;
      header.file_id = input.byte() % 4 == 0 ? values_.value(input) : file_id_;
      header.command = kCommands[input.pick(std::size(kCommands))];
      header.argument = values_.value(input);
      header.length = values_.value(input);
      header.address = values_.pointer(input);
      header.tid = input.byte() % 4 == 0 ? input.number<std::int32_t>() : ::getpid();
    }
    std::string payload = kPaths[input.pick(std::size(kPaths))];
    if (input.byte() % 4 == 0) {
      const auto raw = input.bytes(input.number<std::uint16_t>() % 1024);
      payload.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
    }
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    if (input.byte() % 16 == 0) header.payload_bytes = input.number<std::uint32_t>();
    std::string message(reinterpret_cast<const char*>(&header), sizeof header);
    message += payload;
    if (input.byte() % 32 == 0) message.resize(input.byte());
    if (header.kind == kHello) header.flags = 0;
    client.send_bytes(message.data(), message.size());
    take_answers(client, 0);
  }
  // Remembers files that were opened, answers nothing.
  void take_answers(test::ChannelClient& client, int patience_ms) {
    pollfd ready{client.fd(), POLLIN, 0};
    while (::poll(&ready, 1, patience_ms) > 0) {
      test::ChannelReply reply = client.receive_any();
      if (reply.hung_up) return;
      for (const UniqueFd& fd : reply.fds) remember_file(fd.get());
      patience_ms = 0;
    }
  }
  void remember_file(int fd) {
    const auto id = machine_.files().by_client_fd(*client_, fd);
    if (id) file_id_ = id.value()->id().value;
  }
  void expect_service() {
    test::ChannelClient good(path());
    send_hello(good);
    const RequestHeader question = test::ChannelClient::request(kOwnership);
    good.send(question);
    pollfd ready{good.fd(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) > 0) {
      const test::ChannelReply reply = good.receive_any();
      if (!reply.hung_up && reply.header.call_id == question.call_id && reply.header.value == 0) return;
    }
    std::fprintf(stderr, "fuzz: the channel no longer serves\n");
    std::abort();
  }

  static constexpr std::uint32_t kCommands[] = {TEST_IOC_ECHO,
                                                TEST_IOC_DEEP,
                                                TEST_IOC_BLOCK,
                                                TEST_IOC_WAKE,
                                                TEST_IOC_HAND_FD,
                                                TEST_IOC_WHO,
                                                TEST_IOC_FAIL,
                                                TEST_IOC_DROP,
                                                TEST_IOC_EXPORT,
                                                TEST_IOC_MESSAGE,
                                                0,
                                                0xffffffff};
  static constexpr const char* kPaths[] = {"test/node0", "sys/class/test/test0", "sys/", "", "../../etc",
                                           "//"};

  Machine machine_{Settings{}};
  test::ScratchDirectory scratch_;
  std::unique_ptr<SocketDoor> door_;
  std::unique_ptr<ChannelServer> server_;
  Arena arena_;
  Values values_{arena_};
  ClientRef client_;
  std::uint64_t file_id_ = 1;
};

}  // namespace
}  // namespace understudy::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  understudy::fuzz::Input input(data, size);
  understudy::fuzz::HostileClient().run(input);
  return 0;
}
