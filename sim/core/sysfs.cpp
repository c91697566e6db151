#include "sim/core/sysfs.h"

#include <mutex>

namespace understudy {
namespace {

// Splits "a/b/c" at its first slash.
std::pair<std::string_view, std::string_view> split_first(std::string_view path) {
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return {path, {}};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

SysfsTree::SysfsTree() : root_(std::make_shared<Entry>()) {
  root_->inode = 1;
}

SysfsTree::Directory& SysfsTree::parent_of(std::string_view path, std::string_view* leaf) {
  Entry* at = root_.get();
  for (;;) {
    const auto [first, rest] = split_first(path);
    auto& entries = std::get<Directory>(at->what).entries;
    if (rest.empty()) {
      *leaf = first;
      return std::get<Directory>(at->what);
    }
    auto found = entries.find(first);
    if (found == entries.end()) {
      auto made = std::make_shared<Entry>();
      made->inode = next_inode_++;
      found = entries.emplace(std::string(first), std::move(made)).first;
    }
    // The tree owns its entries; readers see them const.
    at = const_cast<Entry*>(found->second.get());
    path = rest;
  }
}

void SysfsTree::put(std::string_view path, std::variant<Directory, Attribute, Link> what) {
  auto entry = std::make_shared<Entry>();
  entry->what = std::move(what);
  {
    const std::unique_lock lock(mutex_);
    std::string_view leaf;
    Directory& parent = parent_of(path, &leaf);
    if (entry->is_directory() && parent.entries.contains(leaf)) return;
    entry->inode = next_inode_++;
    parent.entries.insert_or_assign(std::string(leaf), entry);
  }
  changed(path, entry);
}

void SysfsTree::observe(Observer observer) {
  const std::lock_guard lock(observer_mutex_);
  observer_ = std::move(observer);
}

void SysfsTree::changed(std::string_view path, const EntryRef& entry) const {
  const std::lock_guard lock(observer_mutex_);
  if (observer_) observer_(path, entry);
}

void SysfsTree::directory(std::string_view path) {
  put(path, Directory{{}, nullptr});
}

void SysfsTree::directory(std::string_view path, std::function<void()> populate) {
  put(path, Directory{{}, std::make_shared<Population>(std::move(populate))});
}

void SysfsTree::attribute(std::string_view path, std::string text, unsigned mode) {
  put(path, Attribute{std::move(text), {}, {}, mode});
}

void SysfsTree::attribute(std::string_view path, Show show, Store store) {
  const unsigned mode = store ? 0644 : 0444;
  put(path, Attribute{{}, std::move(show), std::move(store), mode});
}

void SysfsTree::link(std::string_view path, std::string target) {
  put(path, Link{std::move(target)});
}

void SysfsTree::link_to(std::string_view path, std::string_view to) {
  // Climb from the link's directory to the deepest common ancestor, then descend.
  std::string_view from = path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
  while (!from.empty() && !to.empty()) {
    const auto [from_first, from_rest] = split_first(from);
    const auto [to_first, to_rest] = split_first(to);
    if (from_first != to_first || to_rest.empty()) break;
    from = from_rest;
    to = to_rest;
  }
  std::string target;
  for (; !from.empty(); from = split_first(from).second) target += "../";
  target += to;
  link(path, std::move(target));
}

void SysfsTree::remove(std::string_view path) {
  {
    const std::unique_lock lock(mutex_);
    std::string_view leaf;
    Directory& parent = parent_of(path, &leaf);
    if (const auto found = parent.entries.find(leaf); found != parent.entries.end())
      parent.entries.erase(found);
  }
  changed(path, nullptr);
}

SysfsTree::EntryRef SysfsTree::find(std::string_view path) const {
  EntryRef at = root_;
  while (at && !path.empty()) {
    const auto [first, rest] = split_first(path);
    at = at->is_directory() ? child(*at, first) : nullptr;
    path = rest;
  }
  return at;
}

const SysfsTree::Directory& SysfsTree::populated(const Entry& directory) {
  const Directory& what = std::get<Directory>(directory.what);
  if (what.population) what.population->run();
  return what;
}

SysfsTree::EntryRef SysfsTree::child(const Entry& directory, std::string_view name) const {
  const Directory& what = populated(directory);
  const std::shared_lock lock(mutex_);
  const auto& entries = what.entries;
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : found->second;
}

std::vector<std::pair<std::string, SysfsTree::EntryRef>> SysfsTree::list(const Entry& directory) const {
  const Directory& what = populated(directory);
  const std::shared_lock lock(mutex_);
  const auto& entries = what.entries;
  return {entries.begin(), entries.end()};
}

Result<std::string> SysfsTree::read(const Entry& entry) {
  const Attribute& attribute = std::get<Attribute>(entry.what);
  return attribute.show ? attribute.show() : Result<std::string>(attribute.text);
}

}  // namespace understudy
