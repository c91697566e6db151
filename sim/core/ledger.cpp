#include "sim/core/ledger.h"

#include <cstdio>
#include <utility>

#include "sim/core/call.h"
#include "sim/core/file.h"

namespace understudy {
namespace {

constexpr std::size_t kDestroyedRemembered = 65536;

constexpr const char* kObjectKindNames[] = {
    "file",    "buffer", "GEM handle", "KFD handle", "dma-buf", "mapping",
    "context", "queue",  "event",      "syncobj",    "userptr", "resource",
};
constexpr const char* kFindingKindNames[] = {
    "leak",    "double-destroy",   "use-after-free", "wrong-owner", "map-left-behind",
    "no-shim", "unsupported-call", "skipped-work",
};

}  // namespace

const char* object_kind_name(ObjectKind kind) {
  return kObjectKindNames[static_cast<int>(kind)];
}
const char* finding_kind_name(FindingKind kind) {
  return kFindingKindNames[static_cast<int>(kind)];
}

LedgerEntry::LedgerEntry(LedgerEntry&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), id_(other.id_) {}

LedgerEntry& LedgerEntry::operator=(LedgerEntry&& other) noexcept {
  if (this != &other) {
    close(nullptr);
    ledger_ = std::exchange(other.ledger_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void LedgerEntry::close(const Call* call) {
  if (Ledger* ledger = std::exchange(ledger_, nullptr)) ledger->close(id_, call);
}

void LedgerEntry::keep_for_life() {
  if (ledger_ != nullptr) ledger_->keep_for_life(id_);
}

Actor Ledger::actor_of(const Call* call) {
  if (call == nullptr) return {};
  return Actor{call->client().id(),   call->client().pid(),      call->caller().tid,
               call->client().name(), std::string(call->name()), call->begin_ns()};
}

LedgerEntry Ledger::open(ObjectKind kind, const Call* call, std::string label) {
  LedgerLine line{0, kind, std::move(label), actor_of(call)};
  const std::lock_guard lock(mutex_);
  line.id = next_id_++;
  ++opened_[static_cast<int>(kind)];
  ++live_per_kind_[static_cast<int>(kind)];
  const std::uint64_t id = line.id;
  live_.emplace(id, std::move(line));
  return LedgerEntry(this, id);
}

void Ledger::close(std::uint64_t id, const Call*) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  --live_per_kind_[static_cast<int>(found->second.kind)];
  live_.erase(found);
}

void Ledger::keep_for_life(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = live_.find(id); found != live_.end()) found->second.for_life = true;
}

void Ledger::report(Finding finding) {
  const std::lock_guard lock(mutex_);
  findings_.push_back(std::move(finding));
}

void Ledger::note_destroyed(const std::string& key, const Call* call, const LedgerEntry* entry) {
  Destroyed destroyed{actor_of(call), {}};
  const std::lock_guard lock(mutex_);
  if (entry != nullptr) {
    if (const auto line = live_.find(entry->id_); line != live_.end()) destroyed.line = line->second;
  }
  if (destroyed_.insert_or_assign(key, std::move(destroyed)).second) destroyed_order_.push_back(key);
  if (destroyed_order_.size() > kDestroyedRemembered) {
    destroyed_.erase(destroyed_order_.front());
    destroyed_order_.pop_front();
  }
}

bool Ledger::was_destroyed(const std::string& key, Actor* by, LedgerLine* line) const {
  const std::lock_guard lock(mutex_);
  const auto found = destroyed_.find(key);
  if (found == destroyed_.end()) return false;
  if (by != nullptr) *by = found->second.by;
  if (line != nullptr) *line = found->second.line;
  return true;
}

std::vector<LedgerLine> Ledger::held_by(const Client& client) const {
  std::vector<LedgerLine> held;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, line] : live_) {
    if (line.made.client_id != client.id() || line.kind == ObjectKind::kFile || line.for_life) continue;
    held.push_back(line);
  }
  return held;
}

void Ledger::note_exit(const Client& client) {
  for (LedgerLine& line : held_by(client)) {
    Finding finding;
    finding.kind = FindingKind::kLeak;
    finding.text = line.label + " was never given back";
    finding.made = std::move(line.made);
    report(std::move(finding));
  }
}

void Ledger::count_unsupported(const Call& call) {
  std::string name(call.name());
  if (call.descriptor == nullptr) {
    char word[24];
    std::snprintf(word, sizeof word, "0x%08x", call.command);
    name = word;
  }
  const std::lock_guard lock(mutex_);
  ++unsupported_[{call.file() ? call.file()->label() : std::string(), std::move(name)}];
}

std::vector<Ledger::UnsupportedCall> Ledger::unsupported_calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<UnsupportedCall> calls;
  for (const auto& [key, count] : unsupported_) calls.push_back({key.first, key.second, count});
  return calls;
}

std::vector<LedgerLine> Ledger::live() const {
  const std::lock_guard lock(mutex_);
  std::vector<LedgerLine> lines;
  for (const auto& [id, line] : live_) lines.push_back(line);
  return lines;
}

std::vector<Finding> Ledger::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

std::uint64_t Ledger::opened_count(ObjectKind kind) const {
  const std::lock_guard lock(mutex_);
  return opened_[static_cast<int>(kind)];
}

std::size_t Ledger::live_count(ObjectKind kind) const {
  const std::lock_guard lock(mutex_);
  return live_per_kind_[static_cast<int>(kind)];
}

}  // namespace understudy
