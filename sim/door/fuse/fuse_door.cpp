#include "sim/door/fuse/fuse_door.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "sim/door/fuse/attribute_handle.h"
#include "sim/door/fuse/node_handle.h"

namespace understudy::door {
namespace {

constexpr unsigned kThreads = 4;
constexpr std::chrono::seconds kPatience{5};
// How long the kernel may go without asking whether an entry of sys/ is still there.
constexpr double kTreeTimeoutSeconds = 0.2;
// An open file's identity and attributes never change.
constexpr double kNodeAttributeTimeoutSeconds = 1e6;

std::span<const std::byte> bytes_of(const void* data, std::size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

FuseDoor& door_of(fuse_req_t request) {
  return static_cast<FuseDoor&>(*static_cast<SessionData*>(::fuse_req_userdata(request)));
}

// Collects what libfuse and fusermount3 say while mounting, which is otherwise printed to stderr.
class MountMessages {
 public:
  MountMessages() {
    ::fuse_set_log_func([](fuse_log_level, const char* format, va_list arguments) {
      char line[512];
      std::vsnprintf(line, sizeof line, format, arguments);
      said() += line;
    });
    said().clear();
    Result<UniqueFd> capture = make_memfd("understudy-mount", 0);
    saved_ = UniqueFd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!capture || !saved_) return;
    capture_ = std::move(capture).value();
    ::dup2(capture_.get(), STDERR_FILENO);
  }
  ~MountMessages() {
    ::fuse_set_log_func(nullptr);
    if (capture_) ::dup2(saved_.get(), STDERR_FILENO);
  }
  MountMessages(const MountMessages&) = delete;

  // The first line, without the speaker's name.
  std::string first_line() const {
    std::string text = said();
    char captured[512];
    const ssize_t got = capture_ ? ::pread(capture_.get(), captured, sizeof captured, 0) : 0;
    if (got > 0) text = std::string(captured, static_cast<std::size_t>(got)) + text;
    text.resize(std::min(text.find('\n'), text.size()));
    for (const char* speaker : {"fusermount3: ", "fuse: "}) {
      if (text.starts_with(speaker)) text.erase(0, std::strlen(speaker));
    }
    return text;
  }

 private:
  static std::string& said() {
    static std::string text;
    return text;
  }
  UniqueFd capture_;
  UniqueFd saved_;
};

}  // namespace

// The libfuse call-backs: each finds the door and the item, and leaves the rest to it.
struct FuseDoor::Operations {
  static void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    FuseDoor& door = door_of(request);
    const std::optional<TreeItem> directory = door.inodes_.find(parent);
    const std::optional<TreeItem> item = directory ? door.tree().child(*directory, name) : std::nullopt;
    if (!item) {
      ::fuse_reply_err(request, ENOENT);
      return;
    }
    const InodeTable::Known known = door.inodes_.remember(*item);
    const bool is_node = std::holds_alternative<NodeRef>(*item);
    fuse_entry_param entry{};
    entry.ino = known.number;
    entry.attr = known.attributes;
    entry.attr_timeout = is_node ? kNodeAttributeTimeoutSeconds : kTreeTimeoutSeconds;
    // Never for nodes: the next open must look up again, to get an inode of its own.
    entry.entry_timeout = is_node ? 0 : kTreeTimeoutSeconds;
    if (::fuse_reply_entry(request, &entry) != 0) door.inodes_.forget(known.number, 1);
  }

  static void forget(fuse_req_t request, fuse_ino_t number, std::uint64_t lookups) {
    door_of(request).inodes_.forget(number, lookups);
    ::fuse_reply_none(request);
  }

  static void forget_multi(fuse_req_t request, std::size_t count, fuse_forget_data* forgets) {
    for (std::size_t i = 0; i < count; ++i)
      door_of(request).inodes_.forget(forgets[i].ino, forgets[i].nlookup);
    ::fuse_reply_none(request);
  }

  static void getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
    const std::optional<TreeItem> item = door_of(request).inodes_.find(number);
    if (!item) {
      ::fuse_reply_err(request, ENOENT);
      return;
    }
    const struct stat attributes = InodeTable::attributes_of(*item, number);
    ::fuse_reply_attr(
        request, &attributes,
        std::holds_alternative<NodeRef>(*item) ? kNodeAttributeTimeoutSeconds : kTreeTimeoutSeconds);
  }

  // Truncating (">" in a shell) is allowed and does nothing; everything else is, as in sysfs, the kernel's.
  static void setattr(fuse_req_t request, fuse_ino_t number, struct stat*, int which, fuse_file_info* info) {
    if (which & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME | FUSE_SET_ATTR_MTIME_NOW)) {
      ::fuse_reply_err(request, EPERM);
      return;
    }
    getattr(request, number, info);
  }

  static void readlink(fuse_req_t request, fuse_ino_t number) {
    const std::optional<TreeItem> item = door_of(request).inodes_.find(number);
    const auto* sysfs = item ? std::get_if<SysfsItem>(&*item) : nullptr;
    const auto* link = sysfs ? std::get_if<SysfsTree::Link>(&sysfs->entry->what) : nullptr;
    if (link != nullptr) {
      ::fuse_reply_readlink(request, link->target.c_str());
    } else {
      ::fuse_reply_err(request, EINVAL);
    }
  }

  static void open(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
    FuseDoor& door = door_of(request);
    const std::optional<TreeItem> item = door.inodes_.find(number);
    if (!item) {
      ::fuse_reply_err(request, ENOENT);
      return;
    }
    if (const auto* node = std::get_if<NodeRef>(&*item)) {
      door.open_node(request, number, *node, info);
      return;
    }
    const auto* sysfs = std::get_if<SysfsItem>(&*item);
    if (sysfs == nullptr || !std::holds_alternative<SysfsTree::Attribute>(sysfs->entry->what)) {
      ::fuse_reply_err(request, EINVAL);
      return;
    }
    // Not even root: kernfs_fop_open looks at the attribute's methods, too.
    const auto& attribute = std::get<SysfsTree::Attribute>(sysfs->entry->what);
    if ((info->flags & O_ACCMODE) != O_RDONLY && !attribute.store) {
      ::fuse_reply_err(request, EACCES);
      return;
    }
    reply_open(request, info, std::make_shared<AttributeHandle>(sysfs->entry));
  }

  static void opendir(fuse_req_t request, fuse_ino_t number, fuse_file_info* info) {
    FuseDoor& door = door_of(request);
    const std::optional<TreeItem> item = door.inodes_.find(number);
    if (!item || !is_directory(*item)) {
      ::fuse_reply_err(request, item ? ENOTDIR : ENOENT);
      return;
    }
    const struct stat self = InodeTable::attributes_of(*item, number);
    std::vector<DirectoryHandle::Entry> entries{{".", self}, {"..", self}};
    for (const auto& [name, child] : door.tree().list(*item))
      entries.push_back({name, door.inodes_.describe(child)});
    reply_open(request, info, std::make_shared<DirectoryHandle>(std::move(entries)));
  }

  static void reply_open(fuse_req_t request, fuse_file_info* info, std::shared_ptr<Handle> handle) {
    FuseDoor& door = door_of(request);
    info->fh = door.handles_.add(handle);
    info->direct_io = 1;
    // Not delivered: the open was interrupted, and no RELEASE will come.
    if (::fuse_reply_open(request, info) != 0) door.handles_.take(info->fh)->closed();
  }

  static void release(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    door_of(request).handles_.take(info->fh)->closed();
    ::fuse_reply_err(request, 0);
  }

  static std::shared_ptr<Handle> handle_of(fuse_req_t request, const fuse_file_info* info) {
    return door_of(request).handles_.find(info->fh);
  }

  static void readdir(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
    handle_of(request, info)->list(request, size, offset);
  }

  static void read(fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
    handle_of(request, info)->read(request, size, offset, (info->flags & O_NONBLOCK) != 0);
  }

  static void write(fuse_req_t request, fuse_ino_t, const char* data, std::size_t size, off_t offset,
                    fuse_file_info* info) {
    handle_of(request, info)->write(request, bytes_of(data, size), offset);
  }

  static void ioctl(fuse_req_t request, fuse_ino_t, unsigned command, void* argument, fuse_file_info* info,
                    unsigned flags, const void* in, std::size_t in_bytes, std::size_t out_bytes) {
    if (flags & FUSE_IOCTL_DIR) {
      ::fuse_reply_err(request, ENOTTY);
      return;
    }
    handle_of(request, info)
        ->ioctl(request,
                {command, reinterpret_cast<std::uint64_t>(argument), bytes_of(in, in_bytes), out_bytes});
  }

  static void poll(fuse_req_t request, fuse_ino_t, fuse_file_info* info, fuse_pollhandle* waiter) {
    handle_of(request, info)->poll(request, waiter);
  }

  static constexpr fuse_lowlevel_ops table() {
    fuse_lowlevel_ops operations{};
    operations.lookup = &lookup;
    operations.forget = &forget;
    operations.forget_multi = &forget_multi;
    operations.getattr = &getattr;
    operations.setattr = &setattr;
    operations.readlink = &readlink;
    operations.open = &open;
    operations.read = &read;
    operations.write = &write;
    operations.release = &release;
    operations.opendir = &opendir;
    operations.readdir = &readdir;
    operations.releasedir = &release;
    operations.ioctl = &ioctl;
    operations.poll = &poll;
    return operations;
  }
};

void FuseDoor::open_node(fuse_req_t request, fuse_ino_t number, const NodeRef& node, fuse_file_info* info) {
  const Result<Caller> caller = caller_of(machine, request, true);
  if (!caller) return;
  const Result<FileRef> file = machine.open(*node, caller.value(), info->flags);
  if (!file) {
    ::fuse_reply_err(request, file.error().number());
    return;
  }
  const std::optional<FileId> id = inodes_.first_open(number);
  if (id && machine.files().add(file.value(), *id)) {
    machine.files().bind_identity(*id, device_, number);
  } else {
    machine.files().add(file.value());
  }
  shimless_.opened(caller.value().client, node->path());
  Operations::reply_open(request, info, std::make_shared<NodeHandle>(*this, file.value()));
}

Result<std::unique_ptr<FuseDoor>> FuseDoor::mount(Machine& machine, const std::string& mount_point,
                                                  std::string* why) {
  static constexpr fuse_lowlevel_ops kOperations = Operations::table();
  // Root may let clients that have dropped their privileges in; others may not without the host's consent.
  const char* options = ::geteuid() == 0
                            ? "fsname=understudy,subtype=understudy,default_permissions,allow_other"
                            : "fsname=understudy,subtype=understudy,default_permissions";
  const char* arguments[] = {"understudy", "-o", options, nullptr};
  fuse_args parsed = FUSE_ARGS_INIT(3, const_cast<char**>(arguments));
  std::unique_ptr<FuseDoor> door(new FuseDoor(machine));
  const MountMessages messages;
  SessionData* const user_data = door.get();
  door->session_ = {::fuse_session_new(&parsed, &kOperations, sizeof kOperations, user_data),
                    &::fuse_session_destroy};
  ::fuse_opt_free_args(&parsed);
  if (!door->session_ || ::fuse_session_mount(door->session_.get(), mount_point.c_str()) != 0) {
    *why = messages.first_line();
    return Errno(ENODEV);
  }
  door->mounted_ = true;
  // Nobody answers requests yet, and none is made.
  struct statx found {};
  if (::statx(AT_FDCWD, mount_point.c_str(), AT_STATX_DONT_SYNC, STATX_INO, &found) != 0) {
    *why = std::string("the mount does not answer: ") + std::strerror(errno);
    return last_errno();
  }
  door->device_ = makedev(found.stx_dev_major, found.stx_dev_minor);
  door->threads_ = std::make_unique<SessionThreads>(door->session_.get(), kThreads);
  return door;
}

FuseDoor::~FuseDoor() {
  threads_.reset();
  // Whoever still owes an answer must give it before the session goes; should a driver keep one, the session
  // stays.
  if (!interrupts.interrupt_all(kPatience)) (void)session_.release();
  if (session_ && mounted_) ::fuse_session_unmount(session_.get());
}

}  // namespace understudy::door
