// Commands and responses of the virtio-gpu protocol: bytes decoded once into a variant, so that every place
// that handles commands names all of them, and encoded from the same types.
//
// Owner: plain values. Units: as the protocol; little-endian, as this machine. Errors: malformed requests are
// a value of their own. What follows a command's struct (memory entries, command bytes) stays in the request.
// Thread-safety: pure functions. Mirrors: include/uapi/linux/virtio_gpu.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "uapi/virtio_gpu_wire.h"

namespace understudy::virtio_gpu {

namespace abi = uapi::virtio_gpu_wire;

using CommandHeader = abi::virtio_gpu_ctrl_hdr;

// Several commands share a struct; the type value tells them apart.
template <std::uint32_t TypeValue, typename BodyType>
struct CommandOf {
  static constexpr std::uint32_t kType = TypeValue;
  using Body = BodyType;
  Body body{};
};

using GetDisplayInfo = CommandOf<abi::VIRTIO_GPU_CMD_GET_DISPLAY_INFO, CommandHeader>;
using ResourceCreate2d =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_CREATE_2D, abi::virtio_gpu_resource_create_2d>;
using ResourceUnref = CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_UNREF, abi::virtio_gpu_resource_unref>;
using SetScanout = CommandOf<abi::VIRTIO_GPU_CMD_SET_SCANOUT, abi::virtio_gpu_set_scanout>;
using ResourceFlush = CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_FLUSH, abi::virtio_gpu_resource_flush>;
using TransferToHost2d =
    CommandOf<abi::VIRTIO_GPU_CMD_TRANSFER_TO_HOST_2D, abi::virtio_gpu_transfer_to_host_2d>;
using ResourceAttachBacking =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_ATTACH_BACKING, abi::virtio_gpu_resource_attach_backing>;
using ResourceDetachBacking =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_DETACH_BACKING, abi::virtio_gpu_resource_detach_backing>;
using GetCapsetInfo = CommandOf<abi::VIRTIO_GPU_CMD_GET_CAPSET_INFO, abi::virtio_gpu_get_capset_info>;
using GetCapset = CommandOf<abi::VIRTIO_GPU_CMD_GET_CAPSET, abi::virtio_gpu_get_capset>;
using GetEdid = CommandOf<abi::VIRTIO_GPU_CMD_GET_EDID, abi::virtio_gpu_cmd_get_edid>;
using ResourceAssignUuid =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_ASSIGN_UUID, abi::virtio_gpu_resource_assign_uuid>;
using ResourceCreateBlob =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_CREATE_BLOB, abi::virtio_gpu_resource_create_blob>;
using SetScanoutBlob = CommandOf<abi::VIRTIO_GPU_CMD_SET_SCANOUT_BLOB, abi::virtio_gpu_set_scanout_blob>;
using CtxCreate = CommandOf<abi::VIRTIO_GPU_CMD_CTX_CREATE, abi::virtio_gpu_ctx_create>;
using CtxDestroy = CommandOf<abi::VIRTIO_GPU_CMD_CTX_DESTROY, abi::virtio_gpu_ctx_destroy>;
using CtxAttachResource = CommandOf<abi::VIRTIO_GPU_CMD_CTX_ATTACH_RESOURCE, abi::virtio_gpu_ctx_resource>;
using CtxDetachResource = CommandOf<abi::VIRTIO_GPU_CMD_CTX_DETACH_RESOURCE, abi::virtio_gpu_ctx_resource>;
using ResourceCreate3d =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_CREATE_3D, abi::virtio_gpu_resource_create_3d>;
using TransferToHost3d = CommandOf<abi::VIRTIO_GPU_CMD_TRANSFER_TO_HOST_3D, abi::virtio_gpu_transfer_host_3d>;
using TransferFromHost3d =
    CommandOf<abi::VIRTIO_GPU_CMD_TRANSFER_FROM_HOST_3D, abi::virtio_gpu_transfer_host_3d>;
using Submit3d = CommandOf<abi::VIRTIO_GPU_CMD_SUBMIT_3D, abi::virtio_gpu_cmd_submit>;
using ResourceMapBlob = CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_MAP_BLOB, abi::virtio_gpu_resource_map_blob>;
using ResourceUnmapBlob =
    CommandOf<abi::VIRTIO_GPU_CMD_RESOURCE_UNMAP_BLOB, abi::virtio_gpu_resource_unmap_blob>;
using UpdateCursor = CommandOf<abi::VIRTIO_GPU_CMD_UPDATE_CURSOR, abi::virtio_gpu_update_cursor>;
using MoveCursor = CommandOf<abi::VIRTIO_GPU_CMD_MOVE_CURSOR, abi::virtio_gpu_update_cursor>;

// A type value that no command has.
struct UnknownCommand {
  CommandHeader header{};
};
// Fewer bytes than the command's struct; the header is whole.
struct TruncatedCommand {
  CommandHeader header{};
};
// Fewer bytes than a header.
struct HeaderlessCommand {};

using Command =
    std::variant<HeaderlessCommand, TruncatedCommand, UnknownCommand, GetDisplayInfo, ResourceCreate2d,
                 ResourceUnref, SetScanout, ResourceFlush, TransferToHost2d, ResourceAttachBacking,
                 ResourceDetachBacking, GetCapsetInfo, GetCapset, GetEdid, ResourceAssignUuid,
                 ResourceCreateBlob, SetScanoutBlob, CtxCreate, CtxDestroy, CtxAttachResource,
                 CtxDetachResource, ResourceCreate3d, TransferToHost3d, TransferFromHost3d, Submit3d,
                 ResourceMapBlob, ResourceUnmapBlob, UpdateCursor, MoveCursor>;

// The longest command struct: as many bytes as decode() looks at.
inline constexpr std::size_t kLongestCommandBytes = 96;

// `bytes` may be shorter or longer than the command.
Command decode_command(std::span<const std::byte> bytes);

// The header that a command carries; zeroes for a headerless one.
CommandHeader header_of(const Command& command);

// The command's name as in the kernel header; "unknown" and the like for what is none.
const char* name_of(const Command& command);

// The bytes of a command, its header's type filled in.
template <typename C>
std::vector<std::byte> encode_command(C command) {
  if constexpr (std::is_same_v<typename C::Body, CommandHeader>) {
    command.body.type = C::kType;
  } else {
    command.body.hdr.type = C::kType;
  }
  const auto bytes = std::as_bytes(std::span(&command.body, 1));
  return {bytes.begin(), bytes.end()};
}

// Answers without a body: OK_NODATA and every error.
struct NoData {
  std::uint32_t type = abi::VIRTIO_GPU_RESP_OK_NODATA;
};
struct DisplayInfo {
  abi::virtio_gpu_resp_display_info body{};
};
struct CapsetInfo {
  abi::virtio_gpu_resp_capset_info body{};
};
struct Capset {
  std::vector<std::byte> data;
};
struct Edid {
  abi::virtio_gpu_resp_edid body{};
};
struct ResourceUuid {
  abi::virtio_gpu_resp_resource_uuid body{};
};
struct MapInfo {
  std::uint32_t map_info = 0;
};
// The cursor queue answers with nothing at all.
struct Silence {};

using Response = std::variant<NoData, DisplayInfo, CapsetInfo, Capset, Edid, ResourceUuid, MapInfo, Silence>;

// The header's type of a response; 0 for silence.
std::uint32_t type_of(const Response& response);
inline bool is_error(std::uint32_t response_type) {
  return response_type >= abi::VIRTIO_GPU_RESP_ERR_UNSPEC;
}

// Bytes on the wire. A fenced `request` has its fence id and context id repeated, as the device model does;
// the ring index is not.
std::vector<std::byte> encode_response(const Response& response, const CommandHeader& request);
// What a driver received; NoData with type 0 when there is not even a header.
Response decode_response(std::span<const std::byte> bytes);

}  // namespace understudy::virtio_gpu
