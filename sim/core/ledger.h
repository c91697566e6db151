// Ledger: the account of every handle, buffer, dma-buf, mapping, context and queue: when made, by whom, when
// gone, and what went wrong.
//
// Owner: Machine. Objects hold a LedgerEntry, whose destructor closes the line. Units: times in ns since the
// machine started, sizes in bytes. Errors: none. Thread-safety: all methods from any thread; its lock is a
// leaf.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace understudy {

class Call;
class Client;
class Ledger;

enum class ObjectKind : std::uint8_t {
  kFile,
  kBuffer,
  kGemHandle,
  kKfdHandle,
  kDmaBuf,
  kMapping,
  kContext,
  kQueue,
  kEvent,
  kSyncobj,
  kUserptr,
  kResource,
};
const char* object_kind_name(ObjectKind kind);  // "GEM handle", "dma-buf", ...

// Who did something, kept by value because clients go.
struct Actor {
  std::uint64_t client_id = 0;
  pid_t pid = 0;
  pid_t tid = 0;
  std::string process;
  std::string call;  // "DRM_IOCTL_GEM_CLOSE"
  std::uint64_t time_ns = 0;
};

struct LedgerLine {
  std::uint64_t id = 0;
  ObjectKind kind{};
  std::string label;  // "GEM handle 7 on dri/renderD128, 2 MiB VRAM"
  Actor made;
  bool for_life = false;  // cannot be given back, so is no leak
};

// Stable ids of findings, which can be allowed or made fatal.
enum class FindingKind : std::uint8_t {
  kLeak,
  kDoubleDestroy,
  kUseAfterFree,
  kWrongOwner,
  kMapLeftBehind,
  kNoShim,
  kUnsupportedCall,
  kSkippedWork
};
const char* finding_kind_name(FindingKind kind);  // "leak", "double-destroy", ...

struct Finding {
  FindingKind kind{};
  std::string text;  // one line; what, which, why
  Actor actor;       // the offending call
  Actor first;       // double destroy: the first one; use after free: the free
  Actor made;
};

class LedgerEntry {
 public:
  LedgerEntry() = default;
  LedgerEntry(LedgerEntry&& other) noexcept;
  LedgerEntry& operator=(LedgerEntry&& other) noexcept;
  ~LedgerEntry() { close(nullptr); }
  // Ends the line now, naming the call that did it.
  void close(const Call* call);
  // The driver now refuses to take the object back: having it at exit is no leak.
  void keep_for_life();
  explicit operator bool() const { return ledger_ != nullptr; }

 private:
  friend class Ledger;
  LedgerEntry(Ledger* ledger, std::uint64_t id) : ledger_(ledger), id_(id) {}
  Ledger* ledger_ = nullptr;
  std::uint64_t id_ = 0;
};

class Ledger {
 public:
  LedgerEntry open(ObjectKind kind, const Call* call, std::string label);
  void report(Finding finding);
  // Remembers that `key` (e.g. "dri/renderD128#<file id> GEM handle 7") was destroyed, so that a second
  // destroy can name the first. Bounded; the oldest are forgotten.
  // `entry`: the object's line, which is still open; then the making can be named, too.
  void note_destroyed(const std::string& key, const Call* call, const LedgerEntry* entry = nullptr);
  bool was_destroyed(const std::string& key, Actor* by, LedgerLine* line = nullptr) const;

  // What the client made and still holds, files aside.
  std::vector<LedgerLine> held_by(const Client& client) const;
  // The client is about to exit: what it still holds is what it leaks.
  void note_exit(const Client& client);
  // A call that this machine answers as a kernel without the feature would; listed at the end of the run.
  void count_unsupported(const Call& call);
  struct UnsupportedCall {
    std::string file;  // "kfd"
    std::string name;  // the ioctl's name, or its command word when even the number is unknown
    std::uint64_t count = 0;
  };
  std::vector<UnsupportedCall> unsupported_calls() const;

  std::vector<LedgerLine> live() const;
  std::vector<Finding> findings() const;
  std::uint64_t opened_count(ObjectKind kind) const;
  std::size_t live_count(ObjectKind kind) const;

  static Actor actor_of(const Call* call);

 private:
  friend class LedgerEntry;
  void close(std::uint64_t id, const Call* call);
  void keep_for_life(std::uint64_t id);
  mutable std::mutex mutex_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, LedgerLine> live_;
  struct Destroyed {
    Actor by;
    LedgerLine line;
  };
  std::map<std::string, Destroyed> destroyed_;
  std::deque<std::string> destroyed_order_;
  std::vector<Finding> findings_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> unsupported_;  // (file, name) -> count
  std::uint64_t opened_[16] = {};
  std::size_t live_per_kind_[16] = {};
};

}  // namespace understudy
