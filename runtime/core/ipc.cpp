#include "runtime/core/ipc.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace hsa_rt {
namespace {

constexpr uint32_t kMagic = 0x49505530;
constexpr time_t kClientTimeoutSeconds = 10;
constexpr time_t kServerTimeoutSeconds = 2;

uint64_t random_number() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number))) {
  }
  return number;
}

// In the abstract name space: nothing to clean up, and the secret keeps a later process with the same pid
// apart.
socklen_t make_address(uint32_t process, uint64_t secret, struct sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "hsa-ipc.%u.%016llx",
                                   process, static_cast<unsigned long long>(secret));
  return static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
}

Result<UniqueFd> make_socket(time_t timeout_seconds) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) return Errno{errno};
  const struct timeval timeout { timeout_seconds, 0 };
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(fd.get(), SOL_SOCKET, option, &timeout, sizeof(timeout)) != 0) return Errno{errno};
  }
  return fd;
}

bool same_user(const UniqueFd& client) {
  struct ucred credentials {};
  socklen_t length = sizeof(credentials);
  return ::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == ::geteuid();
}

// One message: a status word, and a descriptor if there is one to give.
bool send_answer(const UniqueFd& client, uint32_t status, int fd) {
  struct iovec data {
    &status, sizeof(status)
  };
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  return ::sendmsg(client.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(status));
}

UniqueFd receive_answer(const UniqueFd& server) {
  uint32_t status = 0;
  struct iovec data {
    &status, sizeof(status)
  };
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  struct msghdr message {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (::recvmsg(server.get(), &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof(status))) return {};
  UniqueFd received;
  for (struct cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    received = UniqueFd(fd);
  }
  return received;
}

}  // namespace

IpcServer::~IpcServer() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

Status<IpcHandle> IpcServer::share(void* base, uint64_t size_bytes) {
  const auto allocation = allocations_.describe(base);
  if (!allocation || allocation->kind != AllocationKind::kPool || allocation->agent_span.pointer() != base ||
      allocation->size != size_bytes) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  // Whether it can be shared is found out now, not when somebody attaches.
  TRY(allocations_.export_dmabuf(base, 1, allocation->memory_serial));
  const std::lock_guard guard(lock_);
  TRY(start());
  std::erase_if(shared_, [this](const auto& entry) {
    const auto current = allocations_.describe(entry.second.base);
    return !current || current->memory_serial != entry.second.memory_serial;
  });
  for (const auto& [key, known] : shared_) {
    if (known.memory_serial == allocation->memory_serial) {
      return IpcHandle{kMagic, static_cast<uint32_t>(::getpid()), server_secret_, key, size_bytes};
    }
  }
  const uint64_t key = random_number();
  shared_[key] = {base, size_bytes, allocation->memory_serial};
  return IpcHandle{kMagic, static_cast<uint32_t>(::getpid()), server_secret_, key, size_bytes};
}

Status<void> IpcServer::start() {
  constexpr int kBacklog = 64;
  if (thread_.joinable()) return {};
  UniqueFd listener = TRY(make_socket(kServerTimeoutSeconds).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  server_secret_ = random_number();
  struct sockaddr_un address;
  const socklen_t length = make_address(static_cast<uint32_t>(::getpid()), server_secret_, address);
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_ || ::bind(listener.get(), reinterpret_cast<struct sockaddr*>(&address), length) != 0 ||
      ::listen(listener.get(), kBacklog) != 0) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  listener_ = std::move(listener);
  thread_ = std::thread([this] { serve(); });
  return {};
}

void IpcServer::serve() {
  for (;;) {
    struct pollfd watched[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) return;
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) answer(client);
  }
}

void IpcServer::answer(const UniqueFd& client) {
  const struct timeval timeout { kServerTimeoutSeconds, 0 };
  ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  uint64_t key = 0;
  if (!same_user(client) || ::recv(client.get(), &key, sizeof(key), 0) != static_cast<ssize_t>(sizeof(key)))
    return;
  SharedMemory memory;
  {
    const std::lock_guard guard(lock_);
    const auto found = shared_.find(key);
    if (found == shared_.end()) {
      send_answer(client, HSA_STATUS_ERROR_INVALID_ARGUMENT, -1);
      return;
    }
    memory = found->second;
  }
  const auto exported = allocations_.export_dmabuf(memory.base, memory.size_bytes, memory.memory_serial);
  if (exported) {
    send_answer(client, HSA_STATUS_SUCCESS, exported.value().fd.get());
  } else {
    send_answer(client, exported.error(), -1);
  }
}

Status<UniqueFd> fetch_shared_memory(const IpcHandle& handle) {
  if (handle.magic != kMagic) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const UniqueFd server = TRY(make_socket(kClientTimeoutSeconds).error_as(HSA_STATUS_ERROR_OUT_OF_RESOURCES));
  struct sockaddr_un address;
  const socklen_t length = make_address(handle.process, handle.server_secret, address);
  if (::connect(server.get(), reinterpret_cast<struct sockaddr*>(&address), length) != 0 ||
      ::send(server.get(), &handle.key, sizeof(handle.key), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof(handle.key))) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  UniqueFd memory = receive_answer(server);
  if (!memory) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return memory;
}

}  // namespace hsa_rt
