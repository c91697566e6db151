/* Entry points and constants of the HSA AMD extension that are newer than the hsa_ext_amd.h of ROCm 5.2
 * (interface 1.0).
 *
 * Include it after, or instead of, <hsa/hsa_ext_amd.h>. With a ROCm header of interface 1.10 or newer it adds
 * nothing, because everything here is declared there under the same names, types and values; versions between
 * the two lack some of it, and a program that needs the rest should use the newer header.
 */
#ifndef UNDERSTUDY_HSA_EXT_VMEM_H
#define UNDERSTUDY_HSA_EXT_VMEM_H

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#if HSA_AMD_INTERFACE_VERSION_MAJOR == 1 && HSA_AMD_INTERFACE_VERSION_MINOR == 0

#ifdef __cplusplus
extern "C" {
#endif

/* An enumerator that a newer header adds to an enumeration of the older one. */
#ifdef __cplusplus
#define UNDERSTUDY_HSA_ENUMERATOR(type, name, value) static const type name = (type)(value)
#else
#define UNDERSTUDY_HSA_ENUMERATOR(type, name, value) enum { name = (value) }
#endif

enum {
  HSA_STATUS_ERROR_OUT_OF_REGISTERS = 45,
  HSA_STATUS_ERROR_RESOURCE_BUSY = 46,
  HSA_STATUS_ERROR_NOT_SUPPORTED = 47
};

UNDERSTUDY_HSA_ENUMERATOR(hsa_access_permission_t, HSA_ACCESS_PERMISSION_NONE, 0);

UNDERSTUDY_HSA_ENUMERATOR(hsa_device_type_t, HSA_DEVICE_TYPE_AIE, 3);

UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_MWAITX_ENABLED, 0x203);
UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED, 0x204);
UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED, 0x205);
UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_XNACK_ENABLED, 0x206);
UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_EXT_VERSION_MAJOR, 0x207);
UNDERSTUDY_HSA_ENUMERATOR(hsa_system_info_t, HSA_AMD_SYSTEM_INFO_EXT_VERSION_MINOR, 0x208);

UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_MEMORY_AVAIL, 0xA015);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY, 0xA016);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_ASIC_FAMILY_ID, 0xA107);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_UCODE_VERSION, 0xA108);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_SDMA_UCODE_VERSION, 0xA109);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_NUM_SDMA_ENG, 0xA10A);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_NUM_SDMA_XGMI_ENG, 0xA10B);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_IOMMU_SUPPORT, 0xA110);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_NUM_XCC, 0xA111);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_DRIVER_UID, 0xA112);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_NEAREST_CPU, 0xA113);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES, 0xA114);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_AQL_EXTENSIONS, 0xA115);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_MAX, 0xA116);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_SCRATCH_LIMIT_CURRENT, 0xA117);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_agent_info_t, HSA_AMD_AGENT_INFO_CLOCK_COUNTERS, 0xA118);

/* Value of HSA_AMD_AGENT_INFO_CLOCK_COUNTERS. */
typedef struct hsa_amd_clock_counters_s {
  uint64_t gpu_clock_counter;
  uint64_t cpu_clock_counter;
  uint64_t system_clock_counter;
  uint64_t system_clock_frequency;
} hsa_amd_clock_counters_t;

/* Bits of HSA_AMD_AGENT_INFO_MEMORY_PROPERTIES, a uint8_t[8]. */
typedef enum hsa_amd_agent_memory_properties_s {
  HSA_AMD_MEMORY_PROPERTY_AGENT_IS_APU = (1 << 0)
} hsa_amd_agent_memory_properties_t;

UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_memory_pool_global_flag_t,
                          HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED, 8);

/* Value of HSA_AMD_MEMORY_POOL_INFO_LOCATION. */
typedef enum hsa_amd_memory_pool_location_s {
  HSA_AMD_MEMORY_POOL_LOCATION_CPU = 0,
  HSA_AMD_MEMORY_POOL_LOCATION_GPU = 1
} hsa_amd_memory_pool_location_t;

UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_memory_pool_info_t, HSA_AMD_MEMORY_POOL_INFO_LOCATION, 17);
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_memory_pool_info_t, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE, 18);

/* Flags of hsa_amd_memory_pool_allocate. */
typedef enum hsa_amd_memory_pool_flag_s {
  HSA_AMD_MEMORY_POOL_STANDARD_FLAG = 0,
  HSA_AMD_MEMORY_POOL_PCIE_FLAG = (1 << 0),
  HSA_AMD_MEMORY_POOL_CONTIGUOUS_FLAG = (1 << 1),
  HSA_AMD_MEMORY_POOL_EXECUTABLE_FLAG = (1 << 2)
} hsa_amd_memory_pool_flag_t;

UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_pointer_type_t, HSA_EXT_POINTER_TYPE_RESERVED_ADDR, 5);

UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_svm_attribute_t, HSA_AMD_SVM_ATTRIB_GPU_EXEC, 7);

/* AIE agents: packets for the embedded runtime (ERT). */
UNDERSTUDY_HSA_ENUMERATOR(hsa_amd_packet_type_t, HSA_AMD_PACKET_TYPE_AIE_ERT, 3);

typedef enum {
  HSA_AMD_AIE_ERT_STATE_NEW = 1,
  HSA_AMD_AIE_ERT_STATE_QUEUED = 2,
  HSA_AMD_AIE_ERT_STATE_RUNNING = 3,
  HSA_AMD_AIE_ERT_STATE_COMPLETED = 4,
  HSA_AMD_AIE_ERT_STATE_ERROR = 5,
  HSA_AMD_AIE_ERT_STATE_ABORT = 6,
  HSA_AMD_AIE_ERT_STATE_SUBMITTED = 7,
  HSA_AMD_AIE_ERT_STATE_TIMEOUT = 8,
  HSA_AMD_AIE_ERT_STATE_NORESPONSE = 9,
  HSA_AMD_AIE_ERT_STATE_SKERROR = 10,
  HSA_AMD_AIE_ERT_STATE_SKCRASHED = 11,
  HSA_AMD_AIE_ERT_STATE_MAX
} hsa_amd_aie_ert_state;

typedef enum {
  HSA_AMD_AIE_ERT_START_CU = 0,
  HSA_AMD_AIE_ERT_START_KERNEL = 0,
  HSA_AMD_AIE_ERT_CONFIGURE = 2,
  HSA_AMD_AIE_ERT_EXIT = 3,
  HSA_AMD_AIE_ERT_ABORT = 4,
  HSA_AMD_AIE_ERT_EXEC_WRITE = 5,
  HSA_AMD_AIE_ERT_CU_STAT = 6,
  HSA_AMD_AIE_ERT_START_COPYBO = 7,
  HSA_AMD_AIE_ERT_SK_CONFIG = 8,
  HSA_AMD_AIE_ERT_SK_START = 9,
  HSA_AMD_AIE_ERT_SK_UNCONFIG = 10,
  HSA_AMD_AIE_ERT_INIT_CU = 11,
  HSA_AMD_AIE_ERT_START_FA = 12,
  HSA_AMD_AIE_ERT_CLK_CALIB = 13,
  HSA_AMD_AIE_ERT_MB_VALIDATE = 14,
  HSA_AMD_AIE_ERT_START_KEY_VAL = 15,
  HSA_AMD_AIE_ERT_ACCESS_TEST_C = 16,
  HSA_AMD_AIE_ERT_ACCESS_TEST = 17,
  HSA_AMD_AIE_ERT_START_DPU = 18,
  HSA_AMD_AIE_ERT_CMD_CHAIN = 19,
  HSA_AMD_AIE_ERT_START_NPU = 20,
  HSA_AMD_AIE_ERT_START_NPU_PREEMPT = 21
} hsa_amd_aie_ert_cmd_opcode_t;

/* Payload of an HSA_AMD_AIE_ERT_START_CU packet. */
typedef struct hsa_amd_aie_ert_start_kernel_data_s {
  void* pdi_addr;
#ifdef __cplusplus
  uint32_t data[1];
#else
  uint32_t data[];
#endif
} hsa_amd_aie_ert_start_kernel_data_t;

typedef struct hsa_amd_aie_ert_packet_s {
  hsa_amd_vendor_packet_header_t header;
  struct {
    uint32_t state : 4;
    uint32_t custom : 8;
    uint32_t count : 11;
    uint32_t opcode : 5;
    uint32_t type : 4;
  };
  uint64_t reserved0;
  uint64_t reserved1;
  uint64_t reserved2;
  uint64_t reserved3;
  uint64_t reserved4;
  uint64_t reserved5;
  uint64_t payload_data;
} hsa_amd_aie_ert_packet_t;

/* dma-bufs of ordinary allocations. */
typedef enum hsa_amd_dma_buf_mapping_type_s {
  HSA_AMD_DMABUF_MAPPING_TYPE_NONE = 0,
  HSA_AMD_DMABUF_MAPPING_TYPE_PCIE = 1
} hsa_amd_dma_buf_mapping_type_t;

hsa_status_t HSA_API hsa_amd_portable_export_dmabuf(const void* ptr, size_t size, int* dmabuf,
                                                    uint64_t* offset);
hsa_status_t HSA_API hsa_amd_portable_export_dmabuf_v2(const void* ptr, size_t size, int* dmabuf,
                                                       uint64_t* offset, uint64_t flags);
hsa_status_t HSA_API hsa_amd_portable_close_dmabuf(int dmabuf);

/* Virtual memory. */
typedef enum hsa_amd_vmem_address_reserve_flag_s {
  HSA_AMD_VMEM_ADDRESS_NO_REGISTER = (1UL << 0)
} hsa_amd_vmem_address_reserve_flag_t;

typedef struct hsa_amd_vmem_alloc_handle_s {
  uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef enum { MEMORY_TYPE_NONE, MEMORY_TYPE_PINNED } hsa_amd_memory_type_t;

typedef struct hsa_amd_memory_access_desc_s {
  hsa_access_permission_t permissions;
  hsa_agent_t agent_handle;
} hsa_amd_memory_access_desc_t;

hsa_status_t HSA_API hsa_amd_vmem_address_reserve(void** va, size_t size, uint64_t address, uint64_t flags);
hsa_status_t HSA_API hsa_amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address,
                                                        uint64_t alignment, uint64_t flags);
hsa_status_t HSA_API hsa_amd_vmem_address_free(void* va, size_t size);
hsa_status_t HSA_API hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size,
                                                hsa_amd_memory_type_t type, uint64_t flags,
                                                hsa_amd_vmem_alloc_handle_t* memory_handle);
hsa_status_t HSA_API hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t memory_handle);
hsa_status_t HSA_API hsa_amd_vmem_map(void* va, size_t size, size_t in_offset,
                                      hsa_amd_vmem_alloc_handle_t memory_handle, uint64_t flags);
hsa_status_t HSA_API hsa_amd_vmem_unmap(void* va, size_t size);
hsa_status_t HSA_API hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* desc,
                                             size_t desc_cnt);
hsa_status_t HSA_API hsa_amd_vmem_get_access(void* va, hsa_access_permission_t* perms,
                                             hsa_agent_t agent_handle);
hsa_status_t HSA_API hsa_amd_vmem_export_shareable_handle(int* dmabuf_fd, hsa_amd_vmem_alloc_handle_t handle,
                                                          uint64_t flags);
hsa_status_t HSA_API hsa_amd_vmem_import_shareable_handle(int dmabuf_fd, hsa_amd_vmem_alloc_handle_t* handle);
hsa_status_t HSA_API hsa_amd_vmem_retain_alloc_handle(hsa_amd_vmem_alloc_handle_t* memory_handle, void* addr);
hsa_status_t HSA_API hsa_amd_vmem_get_alloc_properties_from_handle(hsa_amd_vmem_alloc_handle_t memory_handle,
                                                                   hsa_amd_memory_pool_t* pool,
                                                                   hsa_amd_memory_type_t* type);

/* Queues and copies. */
typedef enum { HSA_AMD_QUEUE_INFO_AGENT, HSA_AMD_QUEUE_INFO_DOORBELL_ID } hsa_queue_info_attribute_t;

hsa_status_t HSA_API hsa_amd_queue_get_info(hsa_queue_t* queue, hsa_queue_info_attribute_t attribute,
                                            void* value);

uint32_t HSA_API hsa_amd_signal_wait_all(uint32_t signal_count, hsa_signal_t* signals,
                                         hsa_signal_condition_t* conds, hsa_signal_value_t* values,
                                         uint64_t timeout_hint, hsa_wait_state_t wait_hint,
                                         hsa_signal_value_t* satisfying_values);

#ifdef __cplusplus
}
#endif

#endif /* interface 1.0 */

#endif /* UNDERSTUDY_HSA_EXT_VMEM_H */
