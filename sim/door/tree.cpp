#include "sim/door/tree.h"

#include <algorithm>

namespace understudy::door {
namespace {

// As many as the kernel follows (MAXSYMLINKS).
constexpr unsigned kMaxLinks = 40;

std::string text_or(const SysfsTree& tree, const std::string& path, std::string fallback) {
  const SysfsTree::EntryRef entry = tree.find(path);
  if (!entry || !std::holds_alternative<SysfsTree::Attribute>(entry->what)) return fallback;
  const Result<std::string> text = SysfsTree::read(*entry);
  if (!text) return fallback;
  return text.value().substr(0, text.value().find('\n'));
}

// Loadable modules have an initstate; built-in ones are absent from /proc/modules.
Result<std::string> modules_text(const SysfsTree& sysfs) {
  std::string text;
  const SysfsTree::EntryRef modules = sysfs.find("module");
  if (!modules || !modules->is_directory()) return text;
  for (const auto& [name, entry] : sysfs.list(*modules)) {
    const std::string directory = "module/" + name;
    if (text_or(sysfs, directory + "/initstate", "") != "live") continue;
    text += name + " " + text_or(sysfs, directory + "/coresize", "16384") + " " +
            text_or(sysfs, directory + "/refcnt", "0") + " - Live 0x0000000000000000\n";
  }
  return text;
}

std::string joined(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : directory + "/" + std::string(name);
}

}  // namespace

bool is_directory(const TreeItem& item) {
  if (const auto* sysfs = std::get_if<SysfsItem>(&item)) return sysfs->entry->is_directory();
  return !std::holds_alternative<NodeRef>(item);
}

Tree::Tree(Machine& machine) : machine_(machine) {
  proc_.attribute("modules", [&machine] { return modules_text(machine.sysfs()); });
}

std::optional<TreeItem> Tree::child(const TreeItem& directory, std::string_view name) const {
  if (std::holds_alternative<RootDirectory>(directory)) {
    if (name == "dev") return DeviceDirectory{};
    if (name == "sys") return SysfsItem{&machine_.sysfs(), false, machine_.sysfs().find("")};
    if (name == "proc") return SysfsItem{&proc_, true, proc_.find("")};
    return std::nullopt;
  }
  if (const auto* devices = std::get_if<DeviceDirectory>(&directory)) {
    const std::string path = joined(devices->path, name);
    for (const NodeRef& node : machine_.nodes()) {
      if (node->path() == path) return node;
      if (node->path().starts_with(path + "/")) return DeviceDirectory{path};
    }
    return std::nullopt;
  }
  const auto* sysfs = std::get_if<SysfsItem>(&directory);
  if (sysfs == nullptr || !sysfs->entry->is_directory()) return std::nullopt;
  SysfsTree::EntryRef entry = sysfs->tree->child(*sysfs->entry, name);
  if (!entry) return std::nullopt;
  return SysfsItem{sysfs->tree, sysfs->is_proc, std::move(entry)};
}

std::vector<std::pair<std::string, TreeItem>> Tree::list(const TreeItem& directory) const {
  std::vector<std::pair<std::string, TreeItem>> items;
  if (const auto* sysfs = std::get_if<SysfsItem>(&directory)) {
    for (auto& [name, entry] : sysfs->tree->list(*sysfs->entry))
      items.emplace_back(name, SysfsItem{sysfs->tree, sysfs->is_proc, entry});
    return items;
  }
  std::vector<std::string> names;
  if (const auto* devices = std::get_if<DeviceDirectory>(&directory)) {
    const std::string prefix = devices->path.empty() ? "" : devices->path + "/";
    for (const NodeRef& node : machine_.nodes()) {
      const std::string path = node->path();
      if (!path.starts_with(prefix)) continue;
      std::string name = path.substr(prefix.size());
      name.resize(std::min(name.find('/'), name.size()));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  } else {
    names = {"dev", "sys", "proc"};
  }
  for (std::string& name : names) {
    if (std::optional<TreeItem> item = child(directory, name)) items.emplace_back(std::move(name), *item);
  }
  return items;
}

std::optional<TreeItem> Tree::find(std::string_view path) const {
  std::string remaining(path);
  unsigned links_followed = 0;
  std::vector<TreeItem> trail{RootDirectory{}};
  while (!remaining.empty()) {
    const std::size_t slash = std::min(remaining.find('/'), remaining.size());
    const std::string name = remaining.substr(0, slash);
    remaining.erase(0, slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (trail.size() > 1) trail.pop_back();
      continue;
    }
    std::optional<TreeItem> item = child(trail.back(), name);
    if (!item) return std::nullopt;
    const auto* sysfs = std::get_if<SysfsItem>(&*item);
    if (const auto* link = sysfs ? std::get_if<SysfsTree::Link>(&sysfs->entry->what) : nullptr) {
      if (++links_followed > kMaxLinks) return std::nullopt;
      // The target continues from the link's own directory, and what is left follows it.
      remaining = link->target + "/" + remaining;
      continue;
    }
    trail.push_back(std::move(*item));
  }
  return trail.back();
}

}  // namespace understudy::door
