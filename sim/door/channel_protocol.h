// The wire between the preload shim and the server: fixed little structs over SOCK_SEQPACKET. A process keeps
// as many connections as its threads have had calls in flight at once; the first is its process connection.
//
// Shared by the shim (libc only) and the server, so: plain data, no C++ library. Requests are answered by
// exactly one kReply; before it the server may send kReadMemory/kWriteMemory, which the shim answers with
// kMemoryData. Units: bytes. Errors: kReply.value is >= 0 or -errno. The server treats every field as
// hostile.
//
// How the shim finds its machine: environment variable UNDERSTUDY = "<root directory>" (absolute, without
// links in it), which holds
//   ctl        the listening socket
//   fs/dev     the machine's device nodes   (fuse mount at fs/, or placeholder files with the socket door)
//   fs/sys     the machine's sysfs tree     (likewise)
//   fs/proc/modules
// How it knows a node's placeholder, whatever path led there: its modification time is node_stamp() of the
// device number, which the shim shows as st_rdev of a character device. With the socket door, a file under
// fs/sys or fs/proc with kDynamicStamp is to be asked for with kReadAttribute.
// How it knows a descriptor: getpeername() gives "\0<prefix>/<id hex16>/<rdev hex>" (socket-backed files), or
// fstat() gives st_dev == the fuse mount's and st_ino == the FileId with bit 63 set (fuse-backed files). An
// inode that was opened again through /proc/self/fd stands for several files: the server says so (-ESTALE
// with kFileIsAmbiguous), and ioctl(fd, UNDERSTUDY_IOC_FILE_ID, &id) tells which one a descriptor refers to.
#pragma once

#include <stdint.h>
#include <sys/ioctl.h>

#define UNDERSTUDY_ENVIRONMENT "UNDERSTUDY"
#define UNDERSTUDY_IOC_FILE_ID _IOR('U', 0, uint64_t)

namespace understudy::door {

enum { kProtocolVersion = 1, kMaxMessageBytes = 64 * 1024, kMaxHandedFds = 4 };
// FUSE inode numbers of open files; the others are tree entries.
inline constexpr uint64_t kOpenFileInodeBit = uint64_t{1} << 63;

// A modification time that no real file has.
struct Stamp {
  int64_t seconds;
  uint32_t nanoseconds;
};
inline constexpr Stamp kDynamicStamp = {1'700'000'000, 725'999'999};
inline constexpr Stamp kFirstNodeStamp = {1'700'000'000, 726'000'000};
inline constexpr uint32_t kMajorCount = 1u << 12, kMinorCount = 1u << 20;  // as in the kernel's dev_t

constexpr Stamp node_stamp(uint32_t major, uint32_t minor) {
  return {kFirstNodeStamp.seconds + major, kFirstNodeStamp.nanoseconds + minor};
}
constexpr bool is_node_stamp(Stamp stamp) {
  return stamp.seconds >= kFirstNodeStamp.seconds && stamp.seconds < kFirstNodeStamp.seconds + kMajorCount &&
         stamp.nanoseconds >= kFirstNodeStamp.nanoseconds &&
         stamp.nanoseconds < kFirstNodeStamp.nanoseconds + kMinorCount;
}
constexpr uint32_t major_of(Stamp node) {
  return static_cast<uint32_t>(node.seconds - kFirstNodeStamp.seconds);
}
constexpr uint32_t minor_of(Stamp node) {
  return node.nanoseconds - kFirstNodeStamp.nanoseconds;
}

enum MessageKind : uint32_t {
  // client -> server
  kHello = 1,  // first message of a connection, command = kProtocolVersion; reply payload: HelloReply
  kOpen,       // payload: path below /dev, NUL-terminated; reply hands one fd (socket door only)
  kIoctl,
  kMmap,           // reply hands the memfd to map; ReplyHeader.extra = offset in it
  kCancel,         // a signal interrupted call_id; the reply still comes
  kMemoryData,     // answer to kReadMemory/kWriteMemory; value = bytes moved or -errno, payload for reads
  kReadAttribute,  // payload: path below the tree root ("sys/..."); reply: value = size, payload = content
  kWriteFile,      // write(2) on a device file; payload: bytes
  kMapped,         // after a kMmap whose reply said kReportAddress: same fields, address = where; answered
  kGoodbye,         // the process is about to exit; what it still holds is what it leaks
  kInject,          // administration (the machine's own user only): payload: a fault plan; reply payload: complaint
  kLedger,          // administration: reply payload: what is alive, one line each
  kOwnership,      // is (device, inode) a dma-buf of this machine? value 1/0
  // server -> client
  kReply = 64,
  kReadMemory,
  kWriteMemory,  // payload: bytes
};

// Answers to kReadMemory/kWriteMemory come in the order of the requests. One whose call_id is not the pending
// call's came too late: the shim moves nothing and answers -ESTALE.

enum HelloFlags : uint32_t {
  kProcessConnection = 1,  // close-on-exec, one per process: its closing tells of exec or exit
  kMemoryFallback = 2,     // the shim offers to move memory (always set; the server decides)
};
// kHello carries in `address` where the client has the 8 bytes of kMemoryProbe: what the server sees there
// tells whether the kernel lets it at the client's memory. If not, kMemoryIsDenied asks the shim to permit it
// (PR_SET_PTRACER, where Yama is the reason).
inline constexpr uint64_t kMemoryProbe = 0x79647574'73726564;

enum RequestFlags : uint32_t {
  kFileIsExact = 1,  // file_id comes from UNDERSTUDY_IOC_FILE_ID
};

struct RequestHeader {
  uint32_t kind;
  uint32_t flags;      // kOpen: open flags; kHello: HelloFlags; kIoctl, kMmap, kWriteFile: RequestFlags
  uint64_t call_id;    // chosen by the client, unique per connection
  uint64_t file_id;    // kIoctl, kMmap, kWriteFile
  uint32_t command;    // kIoctl: command word; kMmap: protection
  uint32_t map_flags;  // kMmap
  uint64_t argument;   // kIoctl: argument; kMmap: offset; kMemoryData: value; kOwnership: inode
  uint64_t length;     // kMmap: length; kOwnership: device
  uint64_t address;    // kMmap: address hint; kHello: where kMemoryProbe is
  int32_t tid;
  uint32_t payload_bytes;
};

struct HelloReply {
  uint64_t shmem_device;  // st_dev of memfds: where dma-bufs live
  uint64_t fuse_device;   // st_dev of the mount, 0 with the socket door
  char prefix[48];        // abstract name prefix of socket-backed files, NUL-terminated
};

struct ReplyHeader {
  uint32_t kind;
  uint32_t fd_count;  // descriptors in SCM_RIGHTS, at most kMaxHandedFds
  uint64_t call_id;
  int64_t value;   // kReply: result or -errno; kReadMemory/kWriteMemory: length
  uint64_t extra;  // kMmap: offset; kReadMemory/kWriteMemory: address
  // kIoctl: where the new descriptor's number goes, as int32, at argument + offset.
  uint32_t fd_argument_offset[kMaxHandedFds];
  uint32_t fd_flags[kMaxHandedFds];  // FdFlags
  uint32_t payload_bytes;
  uint32_t reply_flags;  // ReplyFlags
};

enum FdFlags : uint32_t { kFdCloseOnExec = 1 };
enum ReplyFlags : uint32_t {
  kMappingIsDoorbell = 1,
  kReportAddress = 2,    // kMmap: send kMapped once the mapping is made
  kFileIsAmbiguous = 4,  // value is -ESTALE; see the top
  kMemoryIsDenied = 8,   // kHello; see kMemoryProbe
};

}  // namespace understudy::door
