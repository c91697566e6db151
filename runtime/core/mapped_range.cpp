#include "runtime/core/mapped_range.h"

#include <algorithm>

namespace hsa_rt {

Permission MappedRange::permission_of(const Agent& agent) const {
  const Grant* grant = const_cast<MappedRange*>(this)->find(agent);
  return grant == nullptr ? Permission::kNone : grant->permission;
}

std::vector<Agent*> MappedRange::agents_with_access() const {
  std::vector<Agent*> agents;
  for (const Grant& grant : grants_) agents.push_back(grant.agent);
  return agents;
}

std::vector<AccessRequest> MappedRange::grants() const {
  std::vector<AccessRequest> requests;
  for (const Grant& grant : grants_) requests.push_back({grant.agent, grant.permission});
  return requests;
}

std::vector<AccessRequest> MappedRange::revoke_all() const {
  std::vector<AccessRequest> requests;
  for (const Grant& grant : grants_) requests.push_back({grant.agent, Permission::kNone});
  return requests;
}

void MappedRange::abandon() {
  while (!grants_.empty()) erase(*grants_.back().agent);
  (void)set_window(Permission::kNone);
  memory_.reset();
}

MappedRange::Grant* MappedRange::find(const Agent& agent) {
  const auto found = std::ranges::find_if(grants_, [&](const Grant& grant) { return grant.agent == &agent; });
  return found == grants_.end() ? nullptr : &*found;
}

void MappedRange::erase(const Agent& agent) {
  Grant* grant = find(agent);
  if (grant == nullptr) return;
  grant->mapping.reset();
  grant->share.reset();
  grants_.erase(grants_.begin() + (grant - grants_.data()));
}

Result<void> MappedRange::set_window(Permission permission) {
  if (same_in_page_tables(permission, window_)) {
    window_ = permission;
    return {};
  }
  if (permission == Permission::kNone) {
    TRY(clear_piece(span_));
  } else {
    const CpuSource source = TRY(memory_->cpu_source(offset_));
    const Result<void> placed = place_file(span_, cpu_protection(permission), source.fd, source.file_offset);
    if (!placed) {
      window_ = Permission::kNone;
      return placed.error();
    }
  }
  window_ = permission;
  return {};
}

AccessChange::AccessChange(MappedRange& range, std::span<const AccessRequest> requests) : range_(range) {
  for (const AccessRequest& request : requests) {
    const auto known =
        std::ranges::find_if(steps_, [&](const Step& step) { return step.agent == request.agent; });
    if (known != steps_.end()) {
      known->wanted = request.permission;
      continue;
    }
    Step step;
    step.agent = request.agent;
    step.wanted = request.permission;
    step.before = range.permission_of(*request.agent);
    steps_.push_back(std::move(step));
  }
}

Result<void> AccessChange::apply() {
  window_before_ = range_.window_;
  // Room for every newcomer now, so that commit() cannot fail.
  range_.grants_.reserve(range_.grants_.size() + steps_.size());
  const auto attempt = [this]() -> Result<void> {
    // What can fail comes first: revoking needs nothing that could run out.
    for (Step& step : steps_) {
      if (step.wanted != Permission::kNone) TRY(grant(step));
    }
    TRY(range_.set_window(wanted_window()));
    for (Step& step : steps_) {
      if (step.wanted == Permission::kNone) TRY(revoke(step));
    }
    return {};
  };
  Result<void> outcome = attempt();
  if (!outcome) undo();
  return outcome;
}

Result<void> AccessChange::grant(Step& step) {
  Device& device = step.agent->device();
  if (MappedRange::Grant* present = range_.find(*step.agent)) {
    if (present->mapping == nullptr || same_in_page_tables(step.wanted, step.before)) return {};
    TRY(present->mapping->set_permission(step.wanted));
    step.done = Done::kRepermitted;
    return {};
  }
  step.share = TRY(device.attach(range_.memory_));
  step.done = Done::kStaged;
  step.mapping = TRY(step.share->map(range_.span_, range_.offset_, step.wanted));
  return {};
}

Result<void> AccessChange::revoke(Step& step) {
  MappedRange::Grant* present = range_.find(*step.agent);
  if (present == nullptr || present->mapping == nullptr) return {};
  TRY(DeviceMapping::destroy(present->mapping));
  step.done = Done::kRevoked;
  return {};
}

Permission AccessChange::wanted_window() const {
  Permission window = Permission::kNone;
  for (const MappedRange::Grant& grant : range_.grants_) {
    const bool named =
        std::ranges::any_of(steps_, [&](const Step& step) { return step.agent == grant.agent; });
    if (!named && grant.agent->device().shares_cpu_page_tables()) window = window | grant.permission;
  }
  for (const Step& step : steps_) {
    if (step.agent->device().shares_cpu_page_tables()) window = window | step.wanted;
  }
  return window;
}

void AccessChange::undo() {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    MappedRange::Grant* present = range_.find(*step->agent);
    switch (step->done) {
      case Done::kNothing:
        break;
      case Done::kStaged:
        step->mapping.reset();
        step->share.reset();
        break;
      case Done::kRepermitted:
        (void)present->mapping->set_permission(step->before);
        break;
      case Done::kRevoked: {
        auto again = present->share->map(range_.span_, range_.offset_, step->before);
        if (again) {
          present->mapping = std::move(again).value();
        } else {
          // The driver took the mapping and will not give it back: say so rather than promise access.
          range_.erase(*step->agent);
        }
        break;
      }
    }
    step->done = Done::kNothing;
  }
  (void)range_.set_window(window_before_);
}

void AccessChange::commit() {
  for (Step& step : steps_) {
    MappedRange::Grant* present = range_.find(*step.agent);
    if (step.wanted == Permission::kNone) {
      range_.erase(*step.agent);
    } else if (present != nullptr) {
      present->permission = step.wanted;
    } else {
      range_.grants_.push_back({step.agent, step.wanted, std::move(step.share), std::move(step.mapping)});
    }
  }
}

}  // namespace hsa_rt
