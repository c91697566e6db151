#include "sim/door/shimless_clients.h"

namespace understudy::door {
namespace {

// A report that names more helps nobody.
constexpr std::size_t kMaxRemembered = 100;

}  // namespace

ShimlessClients::ShimlessClients(Machine& machine) : state_(std::make_shared<State>()) {
  machine.clients().on_gone([weak = std::weak_ptr(state_)](const ClientRef& client) {
    const std::shared_ptr<State> state = weak.lock();
    if (!state) return;
    const std::lock_guard lock(state->mutex);
    const auto found = state->candidates.find(client->id());
    if (found == state->candidates.end()) return;
    if (!client->has_shim() && state->gone.size() < kMaxRemembered)
      state->gone.push_back(std::move(found->second.second));
    state->candidates.erase(found);
  });
}

void ShimlessClients::opened(const ClientRef& client, const std::string& node) {
  if (client->has_shim()) return;
  const std::lock_guard lock(state_->mutex);
  state_->candidates.try_emplace(client->id(), client, ShimlessClient{client->pid(), client->name(), node});
}

std::vector<ShimlessClient> ShimlessClients::all() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<ShimlessClient> clients = state_->gone;
  for (const auto& [id, candidate] : state_->candidates) {
    if (!candidate.first->has_shim()) clients.push_back(candidate.second);
  }
  return clients;
}

}  // namespace understudy::door
