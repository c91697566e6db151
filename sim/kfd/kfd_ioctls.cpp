#include "sim/kfd/kfd_ioctls.h"

#include <algorithm>

#include "sim/kfd/kfd_file.h"
#include "uapi/kfd.h"
#include "uapi/kfd_rocm.h"

namespace understudy::kfd {
namespace {

namespace abi = uapi::kfd;
namespace rocm = uapi::kfd_rocm;

constexpr std::uint32_t kFirstRocmNr = 0x80;

constexpr IoctlRow kMinor0[] = {
    row<abi::GetVersion, &KfdFile::get_version>(),
    row<abi::CreateQueue, &KfdFile::create_queue>(),
    row<abi::DestroyQueue, &KfdFile::destroy_queue>(),
    row<abi::SetMemoryPolicy, &KfdFile::set_memory_policy>(),
    row<abi::GetClockCounters, &KfdFile::get_clock_counters>(),
    row<abi::GetProcessApertures, &KfdFile::get_process_apertures>(),
    row<abi::UpdateQueue, &KfdFile::update_queue>(),
    row<abi::CreateEvent, &KfdFile::create_event>(),
    row<abi::DestroyEvent, &KfdFile::destroy_event>(),
    row<abi::SetEvent, &KfdFile::set_event>(),
    row<abi::ResetEvent, &KfdFile::reset_event>(),
    row<abi::WaitEvents, &KfdFile::wait_events>(),
    unsupported<abi::DbgRegisterDeprecated>(EPERM),
    unsupported<abi::DbgUnregisterDeprecated>(EPERM),
    unsupported<abi::DbgAddressWatchDeprecated>(EPERM),
    unsupported<abi::DbgWaveControlDeprecated>(EPERM),
};

constexpr IoctlRow kMinor1[] = {
    row<abi::SetScratchBackingVa, &KfdFile::set_scratch_backing_va>(),
    row<abi::GetTileConfig, &KfdFile::get_tile_config>(),
    row<abi::SetTrapHandler, &KfdFile::set_trap_handler>(),
    row<abi::GetProcessAperturesNew, &KfdFile::get_process_apertures_new>(),
    row<abi::AcquireVm, &KfdFile::acquire_vm>(),
    row<abi::AllocMemoryOfGpu, &KfdFile::alloc_memory_of_gpu>(),
    row<abi::FreeMemoryOfGpu, &KfdFile::free_memory_of_gpu>(),
    row<abi::MapMemoryToGpu, &KfdFile::map_memory_to_gpu>(),
    row<abi::UnmapMemoryFromGpu, &KfdFile::unmap_memory_from_gpu>(),
    row<abi::SetCuMask, &KfdFile::set_cu_mask>(),
    row<abi::GetQueueWaveState, &KfdFile::get_queue_wave_state>(),
    row<abi::GetDmabufInfo, &KfdFile::get_dmabuf_info>(),
    row<abi::ImportDmabuf, &KfdFile::import_dmabuf>(),
    row<abi::AllocQueueGws, &KfdFile::alloc_queue_gws>(),
};

constexpr IoctlRow kMinor3[] = {
    row<abi::SmiEvents, &KfdFile::smi_events>(),
};

constexpr IoctlRow kMinor5[] = {
    row<abi::Svm, &KfdFile::svm>(),
    row<abi::SetXnackMode, &KfdFile::set_xnack_mode>(),
};

constexpr IoctlRow kMinor7[] = {
    row<abi::CriuOp, &KfdFile::criu_op>(),
};

constexpr IoctlRow kMinor9[] = {
    row<abi::AvailableMemory, &KfdFile::available_memory>(),
};

constexpr IoctlRow kMinor12[] = {
    row<abi::ExportDmabuf, &KfdFile::export_dmabuf>(),
};

constexpr IoctlRow kMinor13[] = {
    row<abi::RuntimeEnable, &KfdFile::runtime_enable>(),
    row<abi::DbgTrap, &KfdFile::dbg_trap>(kErrnoOnly),
};

constexpr IoctlRow kMinor19[] = {
    row<abi::CreateProcess, &KfdFile::create_process>(),
};

constexpr IoctlRow kMinor23[] = {
    row<abi::Profiler, &KfdFile::profiler>(),
};

// The ranges overlap no upstream number; 0x82 was the debugger's before 1.13 and is a hole since.
constexpr IoctlRow kRocmDkms[] = {
    row<rocm::IpcImportHandle, &KfdFile::ipc_import_handle>(),
    row<rocm::IpcExportHandle, &KfdFile::ipc_export_handle>(),
    row<rocm::CrossMemoryCopy, &KfdFile::cross_memory_copy>(),
    unsupported<rocm::RlcSpm>(EINVAL),
    unsupported<rocm::PcSample>(EOPNOTSUPP),
};

constexpr KfdIoctlVersion kVersions[] = {
    {"KFD 1.0", 0, false, kMinor0},    {"KFD 1.1", 1, false, kMinor1},    {"KFD 1.3", 3, false, kMinor3},
    {"KFD 1.5", 5, false, kMinor5},    {"KFD 1.7", 7, false, kMinor7},    {"KFD 1.9", 9, false, kMinor9},
    {"KFD 1.12", 12, false, kMinor12}, {"KFD 1.13", 13, false, kMinor13}, {"KFD 1.19", 19, false, kMinor19},
    {"KFD 1.23", 23, false, kMinor23}, {"ROCm DKMS", 0, true, kRocmDkms},
};

}  // namespace

std::span<const KfdIoctlVersion> kfd_ioctl_versions() {
  return kVersions;
}

KfdIoctls::KfdIoctls(const Flavour& flavour) {
  for (const KfdIoctlVersion& version : kVersions) {
    if (version.kfd_minor > flavour.kfd_minor || (version.rocm_dkms && !flavour.rocm_dkms)) continue;
    std::uint32_t& end = version.rocm_dkms ? rocm_end_ : upstream_end_;
    for (const IoctlRow& row : version.added) {
      rows_[row.nr] = &row;
      end = std::max(end, row.nr + 1);
    }
  }
}

bool KfdIoctls::in_range(std::uint32_t nr) const {
  return (nr >= abi::AMDKFD_COMMAND_START && nr < upstream_end_) || (nr >= kFirstRocmNr && nr < rocm_end_);
}

Result<const IoctlRow*> KfdIoctls::find(std::uint32_t nr) const {
  if (!in_range(nr)) return Errno(ENOTTY);
  if (rows_[nr] == nullptr) return Errno(EINVAL);
  return rows_[nr];
}

}  // namespace understudy::kfd
