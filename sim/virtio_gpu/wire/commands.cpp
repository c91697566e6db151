#include "sim/virtio_gpu/wire/commands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace understudy::virtio_gpu {
namespace {

template <typename C>
inline constexpr bool kHasType = requires {
  C::kType;
};

template <typename C>
const CommandHeader& header_in(const C& command) {
  if constexpr (std::is_same_v<typename C::Body, CommandHeader>) {
    return command.body;
  } else {
    return command.body.hdr;
  }
}

template <typename C>
Command decode_as(std::span<const std::byte> bytes, const CommandHeader& header) {
  static_assert(sizeof(typename C::Body) <= kLongestCommandBytes);
  if (bytes.size() < sizeof(typename C::Body)) return TruncatedCommand{header};
  C command;
  std::memcpy(&command.body, bytes.data(), sizeof command.body);
  return command;
}

using Decoder = Command (*)(std::span<const std::byte>, const CommandHeader&);
struct CommandEntry {
  std::uint32_t type = 0;
  Decoder decode = nullptr;
};

// One entry per alternative of Command that has a type.
template <std::size_t... kIndices>
constexpr auto make_command_table(std::index_sequence<kIndices...>) {
  std::array<CommandEntry, sizeof...(kIndices)> table{};
  const auto fill = [&]<typename C>(CommandEntry& entry, std::type_identity<C>) {
    if constexpr (kHasType<C>) entry = {C::kType, &decode_as<C>};
  };
  (fill(table[kIndices], std::type_identity<std::variant_alternative_t<kIndices, Command>>{}), ...);
  return table;
}
constexpr auto kCommandTable = make_command_table(std::make_index_sequence<std::variant_size_v<Command>>{});

template <typename Body>
std::vector<std::byte> bytes_of(const Body& body) {
  const auto bytes = std::as_bytes(std::span(&body, 1));
  return {bytes.begin(), bytes.end()};
}

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

template <typename Body>
bool read_body(std::span<const std::byte> bytes, Body& body) {
  if (bytes.size() < sizeof body) return false;
  std::memcpy(&body, bytes.data(), sizeof body);
  return true;
}

}  // namespace

Command decode_command(std::span<const std::byte> bytes) {
  CommandHeader header;
  if (!read_body(bytes, header)) return HeaderlessCommand{};
  const auto entry = std::find_if(kCommandTable.begin(), kCommandTable.end(), [&](const CommandEntry& item) {
    return item.decode && item.type == header.type;
  });
  if (entry == kCommandTable.end()) return UnknownCommand{header};
  return entry->decode(bytes, header);
}

CommandHeader header_of(const Command& command) {
  return std::visit(Overloaded{[](const HeaderlessCommand&) { return CommandHeader{}; },
                               [](const TruncatedCommand& truncated) { return truncated.header; },
                               [](const UnknownCommand& unknown) { return unknown.header; },
                               [](const auto& known) { return header_in(known); }},
                    command);
}

const char* name_of(const Command& command) {
  if (std::holds_alternative<HeaderlessCommand>(command)) return "no header";
  const std::uint32_t type = header_of(command).type;
  for (const uapi::ConstantDescriptor& constant : abi::constants()) {
    if (constant.value == type && std::string_view(constant.name).starts_with("VIRTIO_GPU_CMD_"))
      return constant.name;
  }
  return "unknown";
}

std::uint32_t type_of(const Response& response) {
  return std::visit(Overloaded{[](const NoData& nodata) { return nodata.type; },
                               [](const DisplayInfo&) { return abi::VIRTIO_GPU_RESP_OK_DISPLAY_INFO; },
                               [](const CapsetInfo&) { return abi::VIRTIO_GPU_RESP_OK_CAPSET_INFO; },
                               [](const Capset&) { return abi::VIRTIO_GPU_RESP_OK_CAPSET; },
                               [](const Edid&) { return abi::VIRTIO_GPU_RESP_OK_EDID; },
                               [](const ResourceUuid&) { return abi::VIRTIO_GPU_RESP_OK_RESOURCE_UUID; },
                               [](const MapInfo&) { return abi::VIRTIO_GPU_RESP_OK_MAP_INFO; },
                               [](const Silence&) { return std::uint32_t{0}; }},
                    response);
}

std::vector<std::byte> encode_response(const Response& response, const CommandHeader& request) {
  CommandHeader header{};
  header.type = type_of(response);
  if (request.flags & abi::VIRTIO_GPU_FLAG_FENCE) {
    header.flags = abi::VIRTIO_GPU_FLAG_FENCE;
    header.fence_id = request.fence_id;
    header.ctx_id = request.ctx_id;
  }
  const auto with_header = [&](auto body) {
    body.hdr = header;
    return bytes_of(body);
  };
  return std::visit(Overloaded{[&](const NoData&) { return bytes_of(header); },
                               [&](const Capset& capset) {
                                 std::vector<std::byte> bytes = bytes_of(header);
                                 bytes.insert(bytes.end(), capset.data.begin(), capset.data.end());
                                 return bytes;
                               },
                               [&](const MapInfo& map) {
                                 abi::virtio_gpu_resp_map_info body{};
                                 body.map_info = map.map_info;
                                 return with_header(body);
                               },
                               [](const Silence&) { return std::vector<std::byte>{}; },
                               [&](const auto& typed) { return with_header(typed.body); }},
                    response);
}

Response decode_response(std::span<const std::byte> bytes) {
  CommandHeader header;
  if (!read_body(bytes, header)) return NoData{0};
  switch (header.type) {
    case abi::VIRTIO_GPU_RESP_OK_DISPLAY_INFO: {
      DisplayInfo info;
      if (read_body(bytes, info.body)) return info;
      break;
    }
    case abi::VIRTIO_GPU_RESP_OK_CAPSET_INFO: {
      CapsetInfo info;
      if (read_body(bytes, info.body)) return info;
      break;
    }
    case abi::VIRTIO_GPU_RESP_OK_CAPSET: {
      const auto data = bytes.subspan(sizeof header);
      return Capset{{data.begin(), data.end()}};
    }
    case abi::VIRTIO_GPU_RESP_OK_EDID: {
      Edid edid;
      if (read_body(bytes, edid.body)) return edid;
      break;
    }
    case abi::VIRTIO_GPU_RESP_OK_RESOURCE_UUID: {
      ResourceUuid uuid;
      if (read_body(bytes, uuid.body)) return uuid;
      break;
    }
    case abi::VIRTIO_GPU_RESP_OK_MAP_INFO: {
      abi::virtio_gpu_resp_map_info body;
      if (read_body(bytes, body)) return MapInfo{body.map_info};
      break;
    }
  }
  return NoData{header.type};
}

}  // namespace understudy::virtio_gpu
