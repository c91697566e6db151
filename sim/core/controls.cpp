#include "sim/core/controls.h"

namespace understudy {

void Controls::add(std::string device, std::string action, Action function) {
  actions_[{std::move(device), std::move(action)}] = std::move(function);
}

Result<void> Controls::run(std::string_view device, std::string_view action,
                           const ControlArguments& arguments) const {
  const auto found = actions_.find({std::string(device), std::string(action)});
  if (found == actions_.end()) return Errno(ENOENT);
  return found->second(arguments);
}

std::vector<std::pair<std::string, std::string>> Controls::all() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [name, action] : actions_) names.push_back(name);
  return names;
}

}  // namespace understudy
