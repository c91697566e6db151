/* What libhsakmt's topology snapshot and libdrm_amdgpu say of a machine, one fact per line.
 *
 * Build: cc topology_snapshot.c $(pkg-config --cflags --libs libhsakmt libdrm_amdgpu libdrm)
 * Try:   understudy run --gpu gfx942 -- topology_snapshot
 */
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>
#include <hsakmt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(call)                                            \
  do {                                                         \
    const int status_ = (int)(call);                           \
    if (status_ != 0) {                                        \
      fprintf(stderr, "%s: %d\n", #call, status_);             \
      exit(1);                                                 \
    }                                                          \
  } while (0)

static void* allocate(size_t count, size_t size) {
  void* memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL) exit(1);
  return memory;
}

static void show_caches(HSAuint32 node, const HsaNodeProperties* properties) {
  HsaCacheProperties* caches = allocate(properties->NumCaches, sizeof *caches);
  CHECK(hsaKmtGetNodeCacheProperties(node, properties->CComputeIdLo, properties->NumCaches, caches));
  unsigned count[4] = {0};
  HSAuint32 largest_kb[4] = {0};
  for (HSAuint32 i = 0; i < properties->NumCaches; ++i) {
    const HSAuint32 level = caches[i].CacheLevel < 4 ? caches[i].CacheLevel : 0;
    ++count[level];
    if (caches[i].CacheSize > largest_kb[level]) largest_kb[level] = caches[i].CacheSize;
  }
  for (int level = 1; level < 4; ++level)
    printf("node %u caches level %d count %u largest_kb %u\n", node, level, count[level], largest_kb[level]);
  free(caches);
}

static void show_node(HSAuint32 node) {
  HsaNodeProperties properties;
  CHECK(hsaKmtGetNodeProperties(node, &properties));
  printf("node %u cpus %u simds %u engine %u.%u.%u vendor %u device %u location %u domain %u minor %d waves %u\n", node,
         properties.NumCPUCores, properties.NumFComputeCores, properties.EngineId.ui32.Major,
         properties.EngineId.ui32.Minor, properties.EngineId.ui32.Stepping, properties.VendorId, properties.DeviceId,
         properties.LocationId, properties.Domain, properties.DrmRenderMinor, properties.MaxWavesPerSIMD);
  printf("node %u name %s\n", node, (const char*)properties.AMDName);

  HsaMemoryProperties* banks = allocate(properties.NumMemoryBanks, sizeof *banks);
  CHECK(hsaKmtGetNodeMemoryProperties(node, properties.NumMemoryBanks, banks));
  for (HSAuint32 i = 0; i < properties.NumMemoryBanks; ++i)
    printf("node %u memory %u heap %d bytes %" PRIu64 "\n", node, i, (int)banks[i].HeapType, banks[i].SizeInBytes);
  free(banks);

  if (properties.NumFComputeCores > 0) show_caches(node, &properties);

  HsaIoLinkProperties* links = allocate(properties.NumIOLinks, sizeof *links);
  CHECK(hsaKmtGetNodeIoLinkProperties(node, properties.NumIOLinks, links));
  for (HSAuint32 i = 0; i < properties.NumIOLinks; ++i)
    printf("node %u link to %u type %d weight %u\n", node, links[i].NodeTo, (int)links[i].IoLinkType, links[i].Weight);
  free(links);
}

static void show_render_node(int minor) {
  char path[64];
  snprintf(path, sizeof path, "/dev/dri/renderD%d", minor);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    perror(path);
    exit(1);
  }
  uint32_t major = 0, minor_version = 0;
  amdgpu_device_handle device;
  CHECK(amdgpu_device_initialize(fd, &major, &minor_version, &device));
  struct amdgpu_gpu_info info;
  CHECK(amdgpu_query_gpu_info(device, &info));
  struct drm_amdgpu_memory_info memory;
  CHECK(amdgpu_query_info(device, AMDGPU_INFO_MEMORY, sizeof memory, &memory));
  const char* name = amdgpu_get_marketing_name(device);
  printf("render %d version %u chip %u revision %u family %u cus %u engines %u vram %" PRIu64 " name %s\n", minor, major,
         info.asic_id, info.pci_rev_id, info.family_id, info.cu_active_number, info.num_shader_engines,
         (uint64_t)memory.vram.total_heap_size, name != NULL ? name : "");
  CHECK(amdgpu_device_deinitialize(device));
  close(fd);
}

int main(void) {
  CHECK(hsaKmtOpenKFD());
  HsaSystemProperties system;
  CHECK(hsaKmtAcquireSystemProperties(&system));
  for (HSAuint32 node = 0; node < system.NumNodes; ++node) show_node(node);
  for (HSAuint32 node = 0; node < system.NumNodes; ++node) {
    HsaNodeProperties properties;
    CHECK(hsaKmtGetNodeProperties(node, &properties));
    if (properties.DrmRenderMinor > 0) show_render_node(properties.DrmRenderMinor);
  }
  CHECK(hsaKmtReleaseSystemProperties());
  CHECK(hsaKmtCloseKFD());
  puts("OK");
  return 0;
}
