// SysfsTree: the machine's sys/ tree (and proc/modules): directories, attribute files and links, as data that
// any door can serve.
//
// Owner: Machine. Paths are relative to the tree's root ("devices/virtual/kfd/kfd/topology/generation_id").
// Units: none. Errors: look-ups return null. Thread-safety: built before clients arrive, or under its lock
// later; readers take the lock shared. Attribute functions run without it. Mirrors: fs/sysfs and fs/kernfs as
// far as user space can see.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/core/result.h"

namespace understudy {

class SysfsTree {
 public:
  using Show = std::function<Result<std::string>()>;
  using Store = std::function<Result<void>(std::string_view)>;

  struct Attribute {
    std::string text;  // when show is empty
    Show show;         // content made at each open
    Store store;       // writable when set
    unsigned mode = 0444;
  };
  struct Link {
    std::string target;  // relative, stays inside the tree
  };
  struct Entry;
  // Fills a directory when somebody first looks into it.
  class Population {
   public:
    explicit Population(std::function<void()> populate) : populate_(std::move(populate)) {}
    void run() const { std::call_once(once_, populate_); }

   private:
    const std::function<void()> populate_;
    mutable std::once_flag once_;
  };
  struct Directory {
    std::map<std::string, std::shared_ptr<const Entry>, std::less<>> entries;
    std::shared_ptr<const Population> population;  // null: filled as it was built
  };
  struct Entry {
    std::uint64_t inode = 0;
    std::variant<Directory, Attribute, Link> what;
    bool is_directory() const { return std::holds_alternative<Directory>(what); }
  };
  using EntryRef = std::shared_ptr<const Entry>;

  SysfsTree();

  // Missing parent directories are made.
  void directory(std::string_view path);
  // A directory that `populate` fills (by adding paths below it) when somebody first looks into it: for big
  // subtrees that few programs read. It must not look into the directory itself.
  void directory(std::string_view path, std::function<void()> populate);
  void attribute(std::string_view path, std::string text, unsigned mode = 0444);
  void attribute(std::string_view path, Show show, Store store = {});
  void link(std::string_view path, std::string target);
  // A relative link at `path` to the tree path `to`.
  void link_to(std::string_view path, std::string_view to);
  void remove(std::string_view path);
  // `observer` runs after every later change below the root, with what is now at `path` (null: removed), on
  // the changing thread and without the tree's lock. One at a time; empty ends it.
  using Observer = std::function<void(std::string_view path, const EntryRef& entry)>;
  void observe(Observer observer);

  // "" is the root. Links are not followed.
  EntryRef find(std::string_view path) const;
  EntryRef child(const Entry& directory, std::string_view name) const;
  std::vector<std::pair<std::string, EntryRef>> list(const Entry& directory) const;
  // Content of an attribute as read(2) would give it.
  static Result<std::string> read(const Entry& entry);

 private:
  static const Directory& populated(const Entry& directory);
  Directory& parent_of(std::string_view path, std::string_view* leaf);
  void put(std::string_view path, std::variant<Directory, Attribute, Link> what);
  void changed(std::string_view path, const EntryRef& entry) const;
  mutable std::shared_mutex mutex_;
  std::shared_ptr<Entry> root_;
  std::uint64_t next_inode_ = 2;
  // Held while the observer runs; a directory that it looks into may fill itself meanwhile.
  mutable std::recursive_mutex observer_mutex_;
  Observer observer_;  // guarded by observer_mutex_
};

}  // namespace understudy
