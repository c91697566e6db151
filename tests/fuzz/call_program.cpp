#include "tests/fuzz/call_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace understudy::fuzz {
namespace {

constexpr unsigned kMaxSteps = 128;
constexpr std::size_t kMaxFiles = 8, kMaxHanded = 12, kMaxPending = 6;
constexpr std::uint32_t kMaxArgumentBytes = 1024;
constexpr unsigned kCancelPatienceSeconds = 20;

}  // namespace

class ProgramCall : public Call {
 public:
  using Call::Call;
  const uapi::StructDescriptor* type = nullptr;
  std::vector<UniqueFd> installed;

  bool answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }
  bool wait_answered() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(kCancelPatienceSeconds),
                             [this] { return answered_; });
  }

 protected:
  void reply(int) override {
    for (HandedFd& handed : handed_fds()) {
      const std::int32_t number = handed.fd.get();
      (void)memory().write_value(argument + handed.argument_offset, number);
      installed.push_back(std::move(handed.fd));
    }
    const std::lock_guard lock(mutex_);
    answered_ = true;
    changed_.notify_all();
  }
  bool can_hand_fds() const override { return true; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
};

CallProgram::CallProgram(Machine& machine, ManualClock& clock, const Scene& scene)
    : machine_(machine),
      clock_(clock),
      scene_(scene),
      client_(machine.clients().resolve(::getpid()).value()) {
  client_->use_memory(arena_.memory());
  for (const std::uint64_t value : scene.known) values_.remember(value);
  for (const NodeCalls& calls : scene.calls) {
    for (const std::string& node : calls.nodes) open(calls, node);
  }
}

CallProgram::~CallProgram() {
  finish_all();
  for (std::size_t slot = 0; slot < Arena::kSlots; ++slot) arena_.unmap(slot);
  handed_.clear();
  for (const FileRef& file : machine_.files().all()) machine_.files().remove(file->id());
  files_.clear();
  machine_.clients().retire(client_);
  machine_.sweep();
  check_nothing_is_left();
}

void CallProgram::run(Input& input) {
  for (unsigned count = 0; count < kMaxSteps && !input.empty(); ++count) step(input);
}

void CallProgram::step(Input& input) {
  switch (input.pick(16)) {
    case 0: {
      const NodeCalls& calls = scene_.calls[input.pick(scene_.calls.size())];
      open(calls, calls.nodes[input.pick(calls.nodes.size())]);
      return;
    }
    case 1:
      return close(input);
    case 2:
    case 3:
      return map(input);
    case 4:
      return store(input);
    case 5:
    case 6:
    case 7:
      return fill_struct(input);
    case 8:
      clock_.advance(std::uint64_t{1} << input.pick(36));
      return;
    default:
      return ioctl(input);
  }
}

void CallProgram::open(const NodeCalls& calls, const std::string& path) {
  if (files_.size() >= kMaxFiles) return;
  Node* const node = machine_.node(path);
  if (node == nullptr) std::abort();
  const Result<FileRef> file = machine_.open(*node, caller(), O_RDWR);
  if (!file) return;
  Result<UniqueFd> descriptor = machine_.files().make_descriptor(file.value());
  if (!descriptor) return;
  values_.remember(static_cast<std::uint64_t>(descriptor.value().get()));
  files_.push_back({&calls, file.value(), std::move(descriptor).value()});
}

void CallProgram::close(Input& input) {
  const std::uint8_t what = input.byte();
  if (what % 4 == 0 && !handed_.empty()) {
    handed_.erase(handed_.begin() + static_cast<std::ptrdiff_t>(input.pick(handed_.size())));
  } else if (what % 4 == 1) {
    arena_.unmap(input.pick(Arena::kSlots));
  } else if (what % 4 == 2 && files_.size() > 1) {
    const auto which = files_.begin() + static_cast<std::ptrdiff_t>(input.pick(files_.size()));
    machine_.files().remove(which->file->id());
    files_.erase(which);
  } else if (!pending_.empty()) {
    pending_[input.pick(pending_.size())]->cancel();
  }
}

void CallProgram::ioctl(Input& input) {
  if (files_.empty()) return;
  const OpenFile& on = files_[input.pick(files_.size())];
  const auto table = on.calls->ioctls[input.pick(on.calls->ioctls.size())];
  const uapi::IoctlDescriptor& descriptor = table[input.pick(table.size())];
  std::uint32_t command = descriptor.cmd;
  std::uint32_t size = descriptor.size;
  const std::uint8_t how = input.byte();
  if (how < 16) {
    size = input.number<std::uint16_t>() % kMaxArgumentBytes;
    command = (command & ~(0x3fffu << 16)) | size << 16;
  }
  std::vector<std::byte> bytes(size);
  if (descriptor.args != nullptr) values_.fill(input, *descriptor.args, bytes);
  const std::uint64_t argument =
      how == 16 ? input.number<std::uint64_t>() : arena_.scratch(Arena::kScratchBytes - kMaxArgumentBytes);
  (void)client_->memory().write_some(argument, bytes);

  auto call = std::make_shared<ProgramCall>(machine_, CallKind::kIoctl, caller(), on.file);
  call->command = command;
  call->argument = argument;
  call->type = descriptor.args;
  on.file->ioctl(call);
  if (call->answered()) {
    take_answer(*call, bytes);
  } else {
    keep_pending(std::move(call));
  }
}

void CallProgram::take_answer(ProgramCall& call, std::span<const std::byte> before) {
  if (call.type != nullptr) {
    std::vector<std::byte> after(before.size());
    (void)call.memory().read_some(call.argument, after);
    values_.learn(*call.type, before, after);
  }
  for (UniqueFd& fd : call.installed) {
    handed_.push_back(std::move(fd));
    if (handed_.size() > kMaxHanded) handed_.erase(handed_.begin());
  }
}

void CallProgram::keep_pending(std::shared_ptr<ProgramCall> call) {
  pending_.push_back(std::move(call));
  if (pending_.size() <= kMaxPending) return;
  pending_.front()->cancel();
  pending_.erase(pending_.begin());
}

void CallProgram::map(Input& input) {
  if (files_.empty()) return;
  const OpenFile& on = files_[input.pick(files_.size())];
  auto call = std::make_shared<ProgramCall>(machine_, CallKind::kMmap, caller(), on.file);
  MmapRequest request;
  request.length_bytes = Arena::kPage << input.pick(5);
  request.protection = input.byte() % 4 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
  request.flags = MAP_SHARED;
  request.offset_bytes = values_.value(input) & ~(Arena::kPage - 1);
  const std::size_t slot = input.pick(Arena::kSlots);
  Result<MmapTarget> target = machine_.map(*call, request);
  call->finish(target ? Outcome(0) : Outcome(target.error()));
  if (!target) return;
  if (!arena_.map(slot, target.value().fd.get(), target.value().offset_bytes, request.length_bytes,
                  request.protection))
    return;
  values_.remember(arena_.slot(slot));
  if (target.value().report_address) on.file->mapped(caller(), request, arena_.slot(slot));
}

// Rings, doorbells, signal slots, command buffers: whatever the simulator shares with the client.
void CallProgram::store(Input& input) {
  const std::uint64_t address = arena_.slot(input.pick(Arena::kSlots)) + input.number<std::uint16_t>();
  if (input.byte() % 2 == 0) {
    (void)client_->memory().write_value(address & ~std::uint64_t{7}, values_.value(input));
    return;
  }
  (void)client_->memory().write_some(address, input.bytes(input.byte() % 128));
}

const uapi::StructDescriptor* CallProgram::pick_struct(Input& input) const {
  if (scene_.structs.empty()) return nullptr;
  const auto structs = scene_.structs[input.pick(scene_.structs.size())];
  return &structs[input.pick(structs.size())];
}

void CallProgram::fill_struct(Input& input) {
  const std::uint64_t address = values_.pointer(input);
  const std::size_t count = input.pick(4);
  const uapi::StructDescriptor* const type = pick_struct(input);
  if (count == 0 || type == nullptr) {
    std::uint64_t words[8];
    for (std::uint64_t& word : words) word = values_.value(input);
    // As an array of handles, or of addresses.
    if (input.byte() % 2 == 0) {
      for (std::size_t i = 0; i < std::size(words); ++i) {
        const auto narrow = static_cast<std::uint32_t>(words[i]);
        std::memcpy(reinterpret_cast<std::byte*>(words) + i * sizeof narrow, &narrow, sizeof narrow);
      }
    }
    (void)client_->memory().write_some(address, std::as_bytes(std::span(words)));
    return;
  }
  std::vector<std::byte> bytes(std::min<std::size_t>(type->size, kMaxArgumentBytes) * count);
  for (std::size_t i = 0; i < count; ++i)
    values_.fill(input, *type, std::span(bytes).subspan(i * (bytes.size() / count), bytes.size() / count));
  (void)client_->memory().write_some(address, bytes);
}

void CallProgram::finish_all() {
  for (const auto& call : pending_) call->cancel();
  for (const auto& call : pending_) {
    if (call->wait_answered()) continue;
    std::fprintf(stderr, "fuzz: %s is not ended by a cancel\n", std::string(call->name()).c_str());
    std::abort();
  }
  pending_.clear();
}

void CallProgram::check_nothing_is_left() const {
  const std::vector<LedgerLine> live = machine_.ledger().live();
  if (live.empty()) return;
  for (const LedgerLine& line : live)
    std::fprintf(stderr, "fuzz: outlives its client: %s, made by %s\n", line.label.c_str(),
                 line.made.call.c_str());
  std::abort();
}

}  // namespace understudy::fuzz
