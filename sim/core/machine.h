// Machine: one simulated computer: nodes, sysfs tree, clients, files, dma-bufs, ledger, hooks, clock.
//
// Owner: the server process (or a test) owns one and adds devices to it before clients arrive; destroying it
// retires all clients. Units/Errors: see the parts. Thread-safety: the parts lock themselves. Lock order:
// driver file -> driver device -> buffer -> core tables -> ledger; nobody calls into a client or waits while
// holding a core lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/client.h"
#include "sim/core/clock.h"
#include "sim/core/controls.h"
#include "sim/core/dmabuf.h"
#include "sim/core/file.h"
#include "sim/core/hooks.h"
#include "sim/core/ledger.h"
#include "sim/core/reactor.h"
#include "sim/core/settings.h"
#include "sim/core/sysfs.h"

namespace understudy {

class Machine {
 public:
  explicit Machine(Settings settings, std::unique_ptr<Clock> clock = nullptr);
  ~Machine();
  Machine(const Machine&) = delete;

  const Settings& settings() const { return settings_; }
  Clock& clock() { return *clock_; }
  Reactor& reactor() { return reactor_; }
  ClientTable& clients() { return clients_; }
  FileTable& files() { return files_; }
  DmaBufTable& dmabufs() { return dmabufs_; }
  Ledger& ledger() { return ledger_; }
  Hooks& hooks() { return hooks_; }
  SysfsTree& sysfs() { return sysfs_; }
  Controls& controls() { return controls_; }
  // Abstract-socket name prefix of this machine's descriptors (random per machine).
  const std::string& socket_prefix() const { return socket_prefix_; }

  void add_node(std::shared_ptr<Node> node);
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  Node* node(std::string_view path) const;
  // Keeps a driver's device object alive as long as the machine.
  void keep(std::shared_ptr<void> device) { kept_.push_back(std::move(device)); }

  // The machine this one runs on, which it keeps alive; null for one that is not virtual. Set before clients
  // come.
  const std::shared_ptr<Machine>& host() const { return host_; }
  void run_on(std::shared_ptr<Machine> host) { host_ = std::move(host); }

  // Opens a node for a caller: the one way for every door. Traced and subject to faults.
  Result<FileRef> open(Node& node, const Caller& caller, int open_flags);

  // mmap of call.file(), likewise; the door then sends the target and finishes the call.
  Result<MmapTarget> map(Call& call, const MmapRequest& request);
  // write(2) on call.file(), likewise.
  Result<std::size_t> write(Call& call, std::span<const std::byte> bytes);

  // Drivers register what must be looked at again when clients drop mappings or dma-bufs without a call: run
  // by sweep(), which also runs before anything that observes free memory, and every 100 ms while `pending`
  // work exists.
  void on_sweep(std::function<bool()> sweep_and_tell_pending);
  void sweep();
  // Something may be waiting for clients to let go: sweep until nothing is pending.
  void sweep_soon();

  // Deterministic numbers from the seed; `purpose` separates streams.
  std::uint64_t random(std::string_view purpose, std::uint64_t index = 0) const;

 private:
  // What the hooks say before a call that is no ioctl.
  Result<void> begin(Call& call);

  const Settings settings_;
  const std::string socket_prefix_;
  std::shared_ptr<Machine> host_;
  std::unique_ptr<Clock> clock_;
  Reactor reactor_;
  Ledger ledger_;
  Hooks hooks_;
  SysfsTree sysfs_;
  Controls controls_;
  ClientTable clients_;
  FileTable files_;
  DmaBufTable dmabufs_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::shared_ptr<void>> kept_;
  std::mutex sweep_mutex_;
  std::vector<std::function<bool()>> sweeps_;
  bool sweep_scheduled_ = false;
};

}  // namespace understudy
