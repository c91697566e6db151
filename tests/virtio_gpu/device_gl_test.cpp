// The 3D device's column of the facts, in its versions.
#include <gtest/gtest.h>

#include "tests/virtio_gpu/wire_driver.h"

namespace understudy::virtio_gpu::test {
namespace {

constexpr std::uint32_t kOk = abi::VIRTIO_GPU_RESP_OK_NODATA;
constexpr std::uint32_t kUnspec = abi::VIRTIO_GPU_RESP_ERR_UNSPEC;
constexpr std::uint32_t kInvalidResource = abi::VIRTIO_GPU_RESP_ERR_INVALID_RESOURCE_ID;
constexpr std::uint32_t kInvalidContext = abi::VIRTIO_GPU_RESP_ERR_INVALID_CONTEXT_ID;
constexpr std::uint32_t kInvalidParameter = abi::VIRTIO_GPU_RESP_ERR_INVALID_PARAMETER;
constexpr std::uint32_t kNoSuchContext = 99;
constexpr std::uint32_t kTestCapset = 8;

// A context type that is told what to do.
struct Script {
  bool starts = true;
  bool retires = true;
  bool opens = true;
  std::vector<std::vector<std::byte>> submitted;
  std::vector<BlobRequest> blobs;
  int live_contexts = 0;
};

class ScriptedContext : public RendererContext {
 public:
  explicit ScriptedContext(Script& script) : script_(script) { ++script_.live_contexts; }
  ~ScriptedContext() override { --script_.live_contexts; }
  Result<void> submit(std::span<const std::byte> commands) override {
    script_.submitted.emplace_back(commands.begin(), commands.end());
    return {};
  }
  Result<Blob> create_blob(const BlobRequest& request) override {
    script_.blobs.push_back(request);
    if (request.blob_id == 666) return Errno(ENOENT);
    Blob blob;
    if (script_.opens) blob.opener = [] { return Result<MmapTarget>(MmapTarget{}); };
    return blob;
  }
  bool retires_fence(std::uint32_t) override { return script_.retires; }

 private:
  Script& script_;
};

class ScriptedType : public ContextType {
 public:
  explicit ScriptedType(Script& script) : script_(script) {}
  std::uint32_t capset_id() const override { return kTestCapset; }
  std::uint32_t capset_max_version() const override { return 1; }
  std::uint32_t capset_size_bytes() const override { return 24; }
  void fill_capset(std::uint32_t version, std::span<std::byte> into) override {
    into[0] = static_cast<std::byte>(version);
  }
  Result<void> start() override { return script_.starts ? Result<void>() : Errno(ENODEV); }
  Result<std::unique_ptr<RendererContext>> create_context(std::uint32_t, std::string_view) override {
    return std::unique_ptr<RendererContext>(std::make_unique<ScriptedContext>(script_));
  }

 private:
  Script& script_;
};

std::vector<std::unique_ptr<ContextType>> types_with(Script& script) {
  auto types = WireDriver::virgl_types();
  types.push_back(std::make_unique<ScriptedType>(script));
  return types;
}

DeviceProperties rocm_properties() {
  DeviceProperties properties;
  properties.gl = properties.blob = properties.context_init = properties.rocm = true;
  properties.hostmem_bytes = std::uint64_t{1} << 30;
  return properties;
}

template <typename C>
C about(std::uint32_t id) {
  C command;
  command.body.resource_id = id;
  return command;
}

CtxCreate context(std::uint32_t capset_id) {
  CtxCreate command;
  command.body.context_init = capset_id;
  return command;
}

ResourceCreateBlob blob(std::uint32_t id, std::uint32_t mem, std::uint64_t size = kGuestPageBytes,
                        std::uint32_t entries = 0) {
  ResourceCreateBlob command;
  command.body.resource_id = id;
  command.body.blob_mem = mem;
  command.body.size = size;
  command.body.nr_entries = entries;
  command.body.blob_id = 1;
  return command;
}

struct OldGl : testing::Test {
  WireDriver driver{{.gl = true}, "qemu-7.2"};
};
struct SeriesGl : testing::Test {
  Script script;
  WireDriver driver{rocm_properties(), "series", types_with(script)};
};

TEST_F(OldGl, OffersVirglAndALargerQueue) {
  const std::uint64_t bits = std::uint64_t{3} | std::uint64_t{1} << 28 | std::uint64_t{1} << 29 |
                             std::uint64_t{1} << 32 | std::uint64_t{1} << 40;
  EXPECT_EQ(driver.device.offered_features(), bits);
  EXPECT_EQ(driver.device.queue_size(QueueIndex::kControl), 256);
  EXPECT_EQ(driver.device.config().num_capsets, 2u);
}

TEST_F(OldGl, CapsetsAreVirglAndVirgl2AndZeroesBeyond) {
  const std::uint32_t expected[][3] = {{1, 1, 308}, {2, 2, 1376}, {0, 0, 0}};
  for (std::uint32_t index = 0; index < 3; ++index) {
    GetCapsetInfo command;
    command.body.capset_index = index;
    const Response response = driver.ask(command);
    const auto* info = std::get_if<CapsetInfo>(&response);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->body.capset_id, expected[index][0]);
    EXPECT_EQ(info->body.capset_max_version, expected[index][1]);
    EXPECT_EQ(info->body.capset_max_size, expected[index][2]);
  }
}

TEST_F(OldGl, AnswersOkToWhatTheRendererRefused) {
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceDetachBacking>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceAttachBacking>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceCreate2d>(0)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceFlush>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<TransferToHost2d>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<TransferFromHost3d>(kNoSuchResource)), kOk);
  EXPECT_EQ(driver.type_of_answer(CtxDestroy{}, {}, kNoSuchContext), kOk);
  EXPECT_EQ(driver.type_of_answer(CtxAttachResource{}, {}, kNoSuchContext), kOk);
  EXPECT_EQ(driver.type_of_answer(CtxDetachResource{}, {}, kNoSuchContext), kOk);
  EXPECT_EQ(driver.type_of_answer(Submit3d{}, {}, kNoSuchContext), kOk);
  EXPECT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk) << "context_init is not looked at";
}

TEST_F(OldGl, HasNoBlobs) {
  EXPECT_EQ(driver.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(about<ResourceMapBlob>(1)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnmapBlob>(1)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(about<SetScanoutBlob>(1)), kUnspec);
  EXPECT_EQ(driver.type_of_answer(about<ResourceAssignUuid>(1)), kUnspec);
}

TEST_F(OldGl, SubmitShorterThanItsSizeIsInvalid) {
  ASSERT_EQ(driver.type_of_answer(CtxCreate{}, {}, 1), kOk);
  Submit3d submit;
  submit.body.size = 16;
  EXPECT_EQ(driver.type_of_answer(submit, std::vector<std::byte>(15), 1), kInvalidParameter);
  EXPECT_EQ(driver.type_of_answer(submit, std::vector<std::byte>(16), 1), kOk);
  submit.body.size = 0xffffffff;
  EXPECT_EQ(driver.type_of_answer(submit, std::vector<std::byte>(16), 1), kInvalidParameter);
}

TEST_F(OldGl, TexturesTravelToTheHostAndBack) {
  TestPages pages(driver.memory, 2);
  ResourceCreate3d create;
  create.body.resource_id = 1;
  create.body.target = 2;
  create.body.format = abi::VIRTIO_GPU_FORMAT_B8G8R8A8_UNORM;
  create.body.width = 32;
  create.body.height = 32;
  create.body.depth = 1;
  ASSERT_EQ(driver.type_of_answer(create), kOk);
  ResourceAttachBacking attach = about<ResourceAttachBacking>(1);
  attach.body.nr_entries = 2;
  ASSERT_EQ(driver.type_of_answer(attach, bytes_of(pages.entries())), kOk);

  std::memset(pages.pages->direct().data(), 0x5a, 4096);
  TransferToHost3d to_host;
  to_host.body.resource_id = 1;
  to_host.body.box = {0, 0, 0, 32, 32, 1};
  ASSERT_EQ(driver.type_of_answer(to_host), kOk);
  std::memset(pages.pages->direct().data(), 0, 4096);
  TransferFromHost3d from_host;
  from_host.body = to_host.body;
  from_host.body.box = {0, 16, 0, 32, 16, 1};
  from_host.body.offset = 2048;
  ASSERT_EQ(driver.type_of_answer(from_host), kOk);
  EXPECT_EQ(pages.pages->direct()[2047], std::byte{0});
  EXPECT_EQ(pages.pages->direct()[2048], std::byte{0x5a});
}

TEST_F(OldGl, HeaderlessRequestIsAnsweredByTheNextFence) {
  const std::vector<std::byte> stub(8);
  const std::uint64_t token = driver.send_bytes(stub, 64);
  EXPECT_FALSE(driver.take());
  EXPECT_EQ(driver.device.unanswered_count(), 1u);
  driver.send(CtxCreate{}, {}, 1, WireDriver::Fence{1, {}});
  std::set<std::uint64_t> answered;
  while (const auto answer = driver.take()) answered.insert(answer->token);
  EXPECT_TRUE(answered.contains(token));
  EXPECT_EQ(answered.size(), 2u);
}

TEST(Headerless, TwoDimensionalDeviceNeverAnswersIt) {
  WireDriver driver({}, "qemu-7.2");
  driver.send_bytes(std::vector<std::byte>(8), 64);
  driver.send(GetDisplayInfo{}, {}, 0, WireDriver::Fence{1, {}});
  EXPECT_EQ(driver.take()->header.type, abi::VIRTIO_GPU_RESP_OK_DISPLAY_INFO);
  EXPECT_FALSE(driver.take());
}

class Malformed : public testing::TestWithParam<std::string_view> {};

TEST_P(Malformed, IsOkayInTheOldDeviceAndInvalidInTheNew) {
  const bool reported = GetParam() != "qemu-7.2";
  for (const bool gl : {false, true}) {
    WireDriver driver({.gl = gl}, GetParam());
    std::vector<std::byte> bytes = encode_command(about<ResourceUnref>(1));
    bytes.resize(sizeof(CommandHeader) + 4);
    driver.send_bytes(bytes, 64);
    EXPECT_EQ(driver.take()->header.type, reported ? kInvalidParameter : kOk);
    if (reported) {
      driver.send_bytes(std::vector<std::byte>(8), 64);
      EXPECT_EQ(driver.take()->header.type, kInvalidParameter);
    }
    CommandHeader unknown{};
    unknown.type = 0xdead;
    driver.send_bytes(std::as_bytes(std::span(&unknown, 1)), 64);
    EXPECT_EQ(driver.take()->header.type, kUnspec);
  }
}
INSTANTIATE_TEST_SUITE_P(Behaviours, Malformed, testing::Values("qemu-7.2", "qemu-10.0", "series"),
                         [](const auto& info) { return "Index" + std::to_string(info.index); });

TEST_F(SeriesGl, OffersBlobContextInitAndTheRegion) {
  const std::uint64_t features = driver.device.offered_features();
  EXPECT_TRUE(features & 1u << abi::VIRTIO_GPU_F_RESOURCE_BLOB);
  EXPECT_TRUE(features & 1u << abi::VIRTIO_GPU_F_CONTEXT_INIT);
  EXPECT_FALSE(features & 1u << abi::VIRTIO_GPU_F_RESOURCE_UUID);
  EXPECT_FALSE(features & 1u << abi::VIRTIO_GPU_F_BLOB_ALIGNMENT);
  ASSERT_NE(driver.device.shared_memory(1), nullptr);
  EXPECT_EQ(driver.device.shared_memory(1)->size_bytes(), std::uint64_t{1} << 30);
  EXPECT_EQ(driver.device.shared_memory(0), nullptr);
}

TEST_F(SeriesGl, RocmIsTheThirdCapset) {
  EXPECT_EQ(driver.device.config().num_capsets, 3u);
  GetCapsetInfo command;
  command.body.capset_index = 2;
  const Response response = driver.ask(command);
  EXPECT_EQ(std::get<CapsetInfo>(response).body.capset_id, 8u);
  EXPECT_EQ(std::get<CapsetInfo>(response).body.capset_max_size, 24u);
}

TEST(Rocm, IsNotAdvertisedWithoutThePropertyOrTheLibrary) {
  Script script;
  DeviceProperties off = rocm_properties();
  off.rocm = false;
  EXPECT_EQ(WireDriver(off, "series", types_with(script)).device.config().num_capsets, 2u);
  EXPECT_EQ(WireDriver(rocm_properties(), "series").device.config().num_capsets, 2u);
}

TEST_F(SeriesGl, CapsetIsServedForAnyIdTheLibraryHas) {
  GetCapset command;
  command.body.capset_id = 8;
  command.body.capset_version = 7;
  const Response response = driver.ask(command);
  const auto* capset = std::get_if<Capset>(&response);
  ASSERT_NE(capset, nullptr);
  EXPECT_EQ(capset->data.size(), 24u);
  EXPECT_EQ(capset->data[0], std::byte{7}) << "the version is not checked";
  command.body.capset_id = 5;
  EXPECT_EQ(driver.type_of_answer(command), kInvalidParameter);
}

TEST_F(SeriesGl, ResourceIdsAreChecked) {
  EXPECT_EQ(driver.type_of_answer(about<ResourceCreate2d>(0)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceCreate3d>(5)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceCreate3d>(5)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(5)), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(5)), kInvalidResource);
}

TEST_F(SeriesGl, ContextsOfUnknownSetsAreOkOnTheWireAndDoNotExist) {
  EXPECT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  EXPECT_EQ(script.live_contexts, 1);
  EXPECT_EQ(driver.type_of_answer(context(33), {}, 2), kOk);
  EXPECT_EQ(driver.type_of_answer(context(kTestCapset), {}, 0), kOk);
  EXPECT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk) << "twice is once";
  EXPECT_EQ(script.live_contexts, 1);
  EXPECT_EQ(driver.type_of_answer(CtxDestroy{}, {}, 1), kOk);
  EXPECT_EQ(script.live_contexts, 0);
}

TEST(ContextInit, IsUnspecWithoutTheFeature) {
  Script script;
  DeviceProperties properties = rocm_properties();
  properties.context_init = false;
  WireDriver driver(properties, "series", types_with(script));
  EXPECT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kUnspec);
  EXPECT_EQ(driver.type_of_answer(context(0), {}, 1), kOk);
}

TEST_F(SeriesGl, SubmitPassesWholeWordsOnly) {
  ASSERT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  Submit3d submit;
  submit.body.size = 11;
  EXPECT_EQ(driver.type_of_answer(submit, std::vector<std::byte>(11, std::byte{1}), 1), kOk);
  ASSERT_EQ(script.submitted.size(), 1u);
  EXPECT_EQ(script.submitted[0].size(), 8u);
  submit.body.size = (4 << 20) + 1;
  EXPECT_EQ(driver.type_of_answer(submit, {}, 1), kInvalidParameter);
}

TEST_F(SeriesGl, StrictSaysWhatTheDeviceSwallows) {
  DeviceProperties properties = rocm_properties();
  properties.strict = true;
  WireDriver strict(properties, "series", types_with(script));
  EXPECT_EQ(strict.type_of_answer(context(33), {}, 2), kUnspec);
  EXPECT_EQ(strict.type_of_answer(Submit3d{}, {}, kNoSuchContext), kUnspec);
  EXPECT_EQ(strict.type_of_answer(CtxDestroy{}, {}, kNoSuchContext), kInvalidContext);
  EXPECT_EQ(strict.type_of_answer(CtxAttachResource{}, {}, kNoSuchContext), kInvalidResource);
  EXPECT_EQ(strict.type_of_answer(about<ResourceAttachBacking>(kNoSuchResource)), kInvalidResource);
}

TEST_F(SeriesGl, GuestBlobsNeedEntriesForTheirSize) {
  TestPages pages(driver.memory, 2);
  const auto entries = bytes_of(pages.entries());
  constexpr std::uint32_t kGuest = abi::VIRTIO_GPU_BLOB_MEM_GUEST;
  EXPECT_EQ(driver.type_of_answer(blob(0, kGuest, 8192, 2), entries), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(blob(1, kGuest, 8193, 2), entries), kUnspec);
  EXPECT_EQ(driver.type_of_answer(blob(1, kGuest, 0, 2), entries), kUnspec);
  EXPECT_EQ(driver.type_of_answer(blob(1, kGuest, 8192, 3), entries), kUnspec);
  EXPECT_EQ(driver.type_of_answer(blob(1, 4, 8192, 2), entries), kUnspec);
  EXPECT_EQ(driver.type_of_answer(blob(1, kGuest, 8192, 2), entries), kOk);
  EXPECT_EQ(driver.type_of_answer(blob(1, kGuest, 8192, 2), entries), kInvalidResource);
}

TEST_F(SeriesGl, HostBlobsAskTheContext) {
  constexpr std::uint32_t kHost = abi::VIRTIO_GPU_BLOB_MEM_HOST3D;
  EXPECT_EQ(driver.type_of_answer(blob(1, kHost), {}, 1), kUnspec) << "no such context";
  ASSERT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  ResourceCreateBlob refused = blob(1, kHost);
  refused.body.blob_id = 666;
  EXPECT_EQ(driver.type_of_answer(refused, {}, 1), kUnspec);
  EXPECT_EQ(driver.type_of_answer(blob(1, kHost), {}, 1), kOk);
  TestPages pages(driver.memory, 1);
  EXPECT_EQ(driver.type_of_answer(blob(2, abi::VIRTIO_GPU_BLOB_MEM_HOST3D_GUEST, 4096, 1),
                                  bytes_of(pages.entries()), 1),
            kOk);
  ASSERT_EQ(script.blobs.size(), 3u);
  EXPECT_EQ(total_bytes(script.blobs.back().backing), 4096u);
}

TEST_F(SeriesGl, BlobsAreMappedOnceAndUnmappedAnyNumberOfTimes) {
  ASSERT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  ASSERT_EQ(driver.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_HOST3D), {}, 1), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceMapBlob>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnmapBlob>(kNoSuchResource)), kInvalidResource);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnmapBlob>(1)), kOk);
  ResourceMapBlob map = about<ResourceMapBlob>(1);
  map.body.offset = 0x10000;
  EXPECT_EQ(driver.type_of_answer(map), abi::VIRTIO_GPU_RESP_OK_MAP_INFO);
  EXPECT_EQ(driver.type_of_answer(map), kUnspec);
  EXPECT_TRUE(driver.device.shared_memory(1)->open(0x10000));
  EXPECT_EQ(driver.device.shared_memory(1)->open(0).error(), Errno(EFAULT));
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnmapBlob>(1)), kOk);
  EXPECT_FALSE(driver.device.shared_memory(1)->open(0x10000));
  EXPECT_EQ(driver.type_of_answer(map), abi::VIRTIO_GPU_RESP_OK_MAP_INFO);
  EXPECT_EQ(driver.type_of_answer(about<ResourceUnref>(1)), kOk);
  EXPECT_FALSE(driver.device.shared_memory(1)->open(0x10000)) << "unref unmaps first";
}

TEST_F(SeriesGl, BlobWithoutHostPagesCannotBeMapped) {
  script.opens = false;
  ASSERT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  ASSERT_EQ(driver.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_HOST3D), {}, 1), kOk);
  EXPECT_EQ(driver.type_of_answer(about<ResourceMapBlob>(1)), kUnspec);
}

TEST(Blobs, NeedThePropertyAndARegionToMap) {
  Script script;
  DeviceProperties properties = rocm_properties();
  properties.hostmem_bytes = 0;
  WireDriver no_region(properties, "series", types_with(script));
  ASSERT_EQ(no_region.type_of_answer(context(kTestCapset), {}, 1), kOk);
  ASSERT_EQ(no_region.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_HOST3D), {}, 1), kOk);
  EXPECT_EQ(no_region.type_of_answer(about<ResourceMapBlob>(1)), kUnspec);
  properties.blob = false;
  WireDriver no_blob(properties, "series", types_with(script));
  EXPECT_EQ(no_blob.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_HOST3D), {}, 1), kInvalidParameter);
}

TEST(Blobs, ReleasesWithTheInvertedCheckNeverTakeGuestMemory) {
  Script script;
  DeviceProperties properties = rocm_properties();
  properties.rocm = false;
  WireDriver driver(properties, "qemu-10.0", types_with(script));
  TestPages pages(driver.memory, 1);
  EXPECT_EQ(
      driver.type_of_answer(blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST, 4096, 1), bytes_of(pages.entries())),
      kUnspec);
}

TEST(EntryLimit, OldDevicesStopAt16384AndTheSeriesDoesNot) {
  constexpr std::uint32_t kEntries = 16385;
  for (const bool limited : {true, false}) {
    DeviceProperties properties;
    properties.blob = true;
    WireDriver driver(properties, limited ? "qemu-10.0" : "series");
    TestPages list(driver.memory, kEntries * 16 / kGuestPageBytes + 2, {1000, 1000, 0});
    TestPages page(driver.memory, 1);
    ResourceCreateBlob command = blob(1, abi::VIRTIO_GPU_BLOB_MEM_GUEST, 4096, kEntries);
    const auto bytes = encode_command(command);
    const std::span<std::byte> memory = list.pages->direct();
    std::memcpy(memory.data(), bytes.data(), bytes.size());
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      const abi::virtio_gpu_mem_entry entry = page.entries()[0];
      std::memcpy(memory.data() + bytes.size() + i * sizeof entry, &entry, sizeof entry);
    }
    TestPages response(driver.memory, 1);
    const MemoryRun out[] = {{list.placement.address(), bytes.size() + kEntries * 16}};
    const MemoryRun in[] = {{response.placement.address(), 24}};
    ASSERT_TRUE(driver.control.add(out, in, 1));
    driver.device.kick(QueueIndex::kControl);
    ASSERT_TRUE(driver.control.take_used());
    CommandHeader header;
    std::memcpy(&header, response.pages->direct().data(), sizeof header);
    EXPECT_EQ(header.type, limited ? kUnspec : kOk);
  }
}

TEST_F(SeriesGl, RingFencesRetireByThemselves) {
  ASSERT_EQ(driver.type_of_answer(context(kTestCapset), {}, 1), kOk);
  script.retires = false;
  driver.send(Submit3d{}, {}, 1, WireDriver::Fence{1, 5});
  driver.send(Submit3d{}, {}, 1, WireDriver::Fence{2, 5});
  driver.send(Submit3d{}, {}, 1, WireDriver::Fence{3, 6});
  EXPECT_FALSE(driver.take());
  driver.send(Submit3d{}, {}, 1, WireDriver::Fence{4, {}});
  EXPECT_EQ(driver.take()->header.fence_id, 4u) << "the global timeline does not wait for rings";
  driver.device.retire_ring_fence(1, 5, 2);
  EXPECT_EQ(driver.take()->header.fence_id, 1u);
  EXPECT_EQ(driver.take()->header.fence_id, 2u);
  EXPECT_FALSE(driver.take());
  EXPECT_EQ(driver.device.unanswered_count(), 1u);
}

TEST_F(SeriesGl, FenceOfAContextThatIsNotThereNeverRetires) {
  driver.send(Submit3d{}, {}, kNoSuchContext, WireDriver::Fence{1, 0});
  EXPECT_FALSE(driver.take());
  EXPECT_EQ(driver.device.unanswered_count(), 1u);
}

TEST_F(SeriesGl, ErrorsCarryTheirFenceAndDoNotWait) {
  script.retires = false;
  driver.send(about<ResourceUnref>(kNoSuchResource), {}, 1, WireDriver::Fence{9, 3});
  const auto answer = driver.take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.type, kInvalidResource);
  EXPECT_EQ(answer->header.fence_id, 9u);
}

TEST(RendererStart, FailureStopsNewDevicesForGood) {
  Script script;
  script.starts = false;
  WireDriver driver(rocm_properties(), "series", types_with(script));
  driver.send(GetDisplayInfo{});
  EXPECT_FALSE(driver.take());
  script.starts = true;
  driver.send(GetDisplayInfo{});
  EXPECT_FALSE(driver.take());
}

TEST_F(SeriesGl, BrokenRingNeedsAReset) {
  TestPages page(driver.memory, 1);
  const std::vector<MemoryRun> out(1025, {page.placement.address(), 8});
  ASSERT_TRUE(driver.control.add(out, {}, 1));
  driver.device.kick(QueueIndex::kControl);
  EXPECT_TRUE(driver.device.needs_reset());
  EXPECT_NE(driver.device.broken_reason(), "");
  driver.send(GetDisplayInfo{});
  EXPECT_FALSE(driver.take());
  driver.device.reset();
  EXPECT_FALSE(driver.device.needs_reset());
}

TEST(AnswerFaults, CanLoseRepeatAndSpoilAnswers) {
  PointDecision next = PointDecision::kPass;
  WireDriver driver({}, "series", WireDriver::virgl_types(), [&] { return next; });
  next = PointDecision::kDrop;
  driver.send(GetDisplayInfo{});
  EXPECT_FALSE(driver.take());
  next = PointDecision::kCorrupt;
  driver.send(GetDisplayInfo{});
  EXPECT_NE(driver.take()->header.type, abi::VIRTIO_GPU_RESP_OK_DISPLAY_INFO);
  next = PointDecision::kDuplicate;
  driver.send(GetDisplayInfo{});
  EXPECT_TRUE(driver.take());
  EXPECT_FALSE(driver.take());
  EXPECT_TRUE(driver.control.is_broken()) << "a driver stops at an answer it did not ask for";
}

TEST(Properties, AreReadWithTheirNamesOfAllVersions) {
  DeviceProperties properties;
  EXPECT_EQ(set_property(properties, "hsakmt", "on"), std::nullopt);
  EXPECT_TRUE(properties.rocm);
  EXPECT_EQ(set_property(properties, "hostmem", "8G"), std::nullopt);
  EXPECT_EQ(properties.hostmem_bytes, std::uint64_t{8} << 30);
  EXPECT_NE(set_property(properties, "hostmem", "8X"), std::nullopt);
  EXPECT_NE(set_property(properties, "hostmem", "99999999999T"), std::nullopt);
  EXPECT_NE(set_property(properties, "blob", "maybe"), std::nullopt);
  EXPECT_NE(set_property(properties, "max_outputs", "4G"), std::nullopt);
  const auto unknown = set_property(properties, "colour", "blue");
  ASSERT_TRUE(unknown);
  EXPECT_NE(unknown->find("hostmem"), std::string::npos) << *unknown;
}

TEST(Properties, ImpossibleDevicesAreNotRealized) {
  const Behaviour& old = *find_behaviour("qemu-7.2");
  const Behaviour& series = *find_behaviour("series");
  EXPECT_EQ(check_properties(rocm_properties(), series), std::nullopt);
  EXPECT_NE(check_properties({.gl = true, .blob = true}, old), std::nullopt);
  EXPECT_NE(check_properties({.gl = true, .rocm = true}, *find_behaviour("qemu-10.0")), std::nullopt);
  EXPECT_NE(check_properties({.rocm = true}, series), std::nullopt);
  EXPECT_NE(check_properties({.max_outputs = 17}, series), std::nullopt);
  EXPECT_NE(check_properties({.hostmem_bytes = 3 << 20}, series), std::nullopt);
  EXPECT_EQ(find_behaviour("qemu-99"), nullptr);
}

}  // namespace
}  // namespace understudy::virtio_gpu::test
