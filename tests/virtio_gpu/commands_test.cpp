#include "sim/virtio_gpu/wire/commands.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string_view>

namespace understudy::virtio_gpu {
namespace {

template <typename C>
inline constexpr bool kHasType = requires {
  C::kType;
};

// Calls `function` with a default-made command of every kind that has a type.
template <typename Function, std::size_t... kIndices>
void for_each_command(Function function, std::index_sequence<kIndices...>) {
  const auto call = [&]<typename C>(const C& command) {
    if constexpr (kHasType<C>) function(command);
  };
  (call(std::variant_alternative_t<kIndices, Command>{}), ...);
}
template <typename Function>
void for_each_command(Function function) {
  for_each_command(function, std::make_index_sequence<std::variant_size_v<Command>>{});
}

TEST(Commands, EveryCommandOfTheHeaderIsInTheVariantOnce) {
  std::set<std::uint32_t> in_variant;
  for_each_command([&](const auto& command) {
    EXPECT_TRUE(in_variant.insert(std::remove_cvref_t<decltype(command)>::kType).second);
  });
  std::set<std::uint32_t> in_header;
  for (const uapi::ConstantDescriptor& constant : abi::constants()) {
    if (std::string_view(constant.name).starts_with("VIRTIO_GPU_CMD_"))
      in_header.insert(static_cast<std::uint32_t>(constant.value));
  }
  EXPECT_EQ(in_variant, in_header);
}

TEST(Commands, EncodedCommandsDecodeToThemselves) {
  for_each_command([](auto command) {
    using C = decltype(command);
    auto bytes = encode_command(command);
    ASSERT_EQ(bytes.size(), sizeof(typename C::Body));
    for (std::size_t i = sizeof(std::uint32_t); i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    const Command decoded = decode_command(bytes);
    ASSERT_TRUE(std::holds_alternative<C>(decoded)) << name_of(decoded);
    EXPECT_EQ(std::memcmp(&std::get<C>(decoded).body, bytes.data(), bytes.size()), 0);
    EXPECT_EQ(header_of(decoded).type, C::kType);
    EXPECT_STRNE(name_of(decoded), "unknown");
  });
}

TEST(Commands, OneByteShortIsTruncatedButHasItsHeader) {
  for_each_command([](auto command) {
    using C = decltype(command);
    if constexpr (sizeof(typename C::Body) > sizeof(CommandHeader)) {
      auto bytes = encode_command(command);
      bytes.pop_back();
      const Command decoded = decode_command(bytes);
      ASSERT_TRUE(std::holds_alternative<TruncatedCommand>(decoded));
      EXPECT_EQ(header_of(decoded).type, C::kType);
    }
  });
}

TEST(Commands, LessThanAHeaderIsHeaderless) {
  const std::vector<std::byte> bytes(23);
  EXPECT_TRUE(std::holds_alternative<HeaderlessCommand>(decode_command(bytes)));
  EXPECT_TRUE(std::holds_alternative<HeaderlessCommand>(decode_command({})));
}

TEST(Commands, UnknownTypeKeepsItsHeader) {
  CommandHeader header{};
  header.type = 0x999;
  header.flags = abi::VIRTIO_GPU_FLAG_FENCE;
  header.fence_id = 5;
  const Command decoded = decode_command(std::as_bytes(std::span(&header, 1)));
  ASSERT_TRUE(std::holds_alternative<UnknownCommand>(decoded));
  EXPECT_EQ(header_of(decoded).fence_id, 5u);
}

TEST(Responses, HaveTheSizesOfTheProtocol) {
  const CommandHeader plain{};
  EXPECT_EQ(encode_response(NoData{}, plain).size(), 24u);
  EXPECT_EQ(encode_response(DisplayInfo{}, plain).size(), 408u);
  EXPECT_EQ(encode_response(CapsetInfo{}, plain).size(), 40u);
  EXPECT_EQ(encode_response(Capset{std::vector<std::byte>(24)}, plain).size(), 48u);
  EXPECT_EQ(encode_response(Edid{}, plain).size(), 1056u);
  EXPECT_EQ(encode_response(ResourceUuid{}, plain).size(), 40u);
  EXPECT_EQ(encode_response(MapInfo{}, plain).size(), 32u);
  EXPECT_TRUE(encode_response(Silence{}, plain).empty());
}

TEST(Responses, RepeatFenceAndContextButNotTheRing) {
  CommandHeader request{};
  request.flags = abi::VIRTIO_GPU_FLAG_FENCE | abi::VIRTIO_GPU_FLAG_INFO_RING_IDX;
  request.fence_id = 99;
  request.ctx_id = 3;
  request.ring_idx = 7;
  const auto bytes = encode_response(NoData{abi::VIRTIO_GPU_RESP_ERR_UNSPEC}, request);
  CommandHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header.type, abi::VIRTIO_GPU_RESP_ERR_UNSPEC);
  EXPECT_EQ(header.flags, abi::VIRTIO_GPU_FLAG_FENCE);
  EXPECT_EQ(header.fence_id, 99u);
  EXPECT_EQ(header.ctx_id, 3u);
  EXPECT_EQ(header.ring_idx, 0u);
}

TEST(Responses, UnfencedRequestGetsNoFence) {
  CommandHeader request{};
  request.fence_id = 99;
  request.ctx_id = 3;
  const auto bytes = encode_response(NoData{}, request);
  CommandHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header.flags, 0u);
  EXPECT_EQ(header.fence_id, 0u);
  EXPECT_EQ(header.ctx_id, 0u);
}

TEST(Responses, DecodeToWhatWasEncoded) {
  const CommandHeader plain{};
  CapsetInfo info;
  info.body.capset_id = 8;
  const Response decoded = decode_response(encode_response(info, plain));
  ASSERT_TRUE(std::holds_alternative<CapsetInfo>(decoded));
  EXPECT_EQ(std::get<CapsetInfo>(decoded).body.capset_id, 8u);

  const Response map = decode_response(encode_response(MapInfo{3}, plain));
  EXPECT_EQ(std::get<MapInfo>(map).map_info, 3u);
  const Response capset = decode_response(encode_response(Capset{{std::byte{1}, std::byte{2}}}, plain));
  EXPECT_EQ(std::get<Capset>(capset).data.size(), 2u);
  const Response error =
      decode_response(encode_response(NoData{abi::VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY}, plain));
  EXPECT_EQ(std::get<NoData>(error).type, abi::VIRTIO_GPU_RESP_ERR_OUT_OF_MEMORY);
  EXPECT_EQ(std::get<NoData>(decode_response({})).type, 0u);
}

}  // namespace
}  // namespace understudy::virtio_gpu
