#include "runtime/driver/kfd/kfd_driver.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>

#include "runtime/driver/ioctl.h"
#include "uapi/kfd.h"
#include "uapi/kfd_sysfs.h"

namespace hsa_rt::kfd {
namespace {

struct ProcessDriver {
  pid_t process = 0;
  std::shared_ptr<KfdDriver> driver;
};
std::mutex process_driver_lock;

// Never destroyed: what KFD holds for a process cannot be given back, and other static destructors may still
// use it.
std::vector<ProcessDriver>& process_drivers() {
  static auto* drivers = new std::vector<ProcessDriver>;
  return *drivers;
}

struct DmabufInfo {
  uint64_t size_bytes = 0;
  uint32_t gpu_id = 0;
  uint32_t flags = 0;
};

// ENODEV when the buffer is not amdgpu's.
Result<DmabufInfo> query_dmabuf(int kfd_fd, int dmabuf_fd, std::vector<uint8_t>& metadata) {
  uapi::kfd::kfd_ioctl_get_dmabuf_info_args args{};
  args.dmabuf_fd = static_cast<uint32_t>(dmabuf_fd);
  args.metadata_ptr = metadata.empty() ? 0 : reinterpret_cast<uint64_t>(metadata.data());
  args.metadata_size = static_cast<uint32_t>(metadata.size());
  Result<void> asked = driver_ioctl<uapi::kfd::GetDmabufInfo>(kfd_fd, args);
  if (!asked && asked.error().value == EINVAL && args.metadata_size > metadata.size()) {
    metadata.resize(args.metadata_size);
    args.metadata_ptr = reinterpret_cast<uint64_t>(metadata.data());
    asked = driver_ioctl<uapi::kfd::GetDmabufInfo>(kfd_fd, args);
  }
  if (!asked) return asked.error().value == EINVAL ? Errno{ENODEV} : asked.error();
  if (!metadata.empty()) metadata.resize(args.metadata_size);
  return DmabufInfo{args.size, args.gpu_id, args.flags};
}

Result<void> svm_ioctl(int kfd_fd, uint32_t operation, const AddressSpan& span,
                       std::vector<uapi::kfd::kfd_ioctl_svm_attribute>& attributes) {
  using Attribute = uapi::kfd::kfd_ioctl_svm_attribute;
  using Args = uapi::kfd::kfd_ioctl_svm_args;
  std::vector<std::byte> bytes(sizeof(Args) + attributes.size() * sizeof(Attribute));
  Args args{};
  args.start_addr = span.base;
  args.size = span.size;
  args.op = operation;
  args.nattr = static_cast<uint32_t>(attributes.size());
  std::memcpy(bytes.data(), &args, sizeof(Args));
  std::memcpy(bytes.data() + sizeof(Args), attributes.data(), attributes.size() * sizeof(Attribute));
  // The command carries the size of the whole argument, attributes included.
  constexpr uint32_t kSizeShift = 16;
  const uint32_t extra = static_cast<uint32_t>(attributes.size() * sizeof(Attribute)) << kSizeShift;
  TRY(retrying_ioctl(kfd_fd, uapi::kfd::Svm::kCmd + extra, bytes.data()));
  std::memcpy(attributes.data(), bytes.data() + sizeof(Args), attributes.size() * sizeof(Attribute));
  return {};
}

// The interface's numbers are the kernel's, so values pass through unchanged.
static_assert(kSvmHostAccess == uapi::kfd::KFD_IOCTL_SVM_FLAG_HOST_ACCESS &&
              kSvmCoherent == uapi::kfd::KFD_IOCTL_SVM_FLAG_COHERENT &&
              kSvmHiveLocal == uapi::kfd::KFD_IOCTL_SVM_FLAG_HIVE_LOCAL &&
              kSvmReadOnly == uapi::kfd::KFD_IOCTL_SVM_FLAG_GPU_RO &&
              kSvmExecutable == uapi::kfd::KFD_IOCTL_SVM_FLAG_GPU_EXEC &&
              kSvmReadMostly == uapi::kfd::KFD_IOCTL_SVM_FLAG_GPU_READ_MOSTLY);
static_assert(static_cast<uint32_t>(SvmAttribute::kAccess) == uapi::kfd::KFD_IOCTL_SVM_ATTR_ACCESS &&
              static_cast<uint32_t>(SvmAttribute::kGranularity) == uapi::kfd::KFD_IOCTL_SVM_ATTR_GRANULARITY);

bool names_device(SvmAttribute attribute) {
  switch (attribute) {
    case SvmAttribute::kPreferredLocation:
    case SvmAttribute::kPrefetchLocation:
    case SvmAttribute::kAccess:
    case SvmAttribute::kAccessInPlace:
    case SvmAttribute::kNoAccess:
      return true;
    case SvmAttribute::kSetFlags:
    case SvmAttribute::kClearFlags:
    case SvmAttribute::kGranularity:
      return false;
  }
  return false;
}

constexpr uint32_t kUndefinedLocation = uapi::kfd::KFD_IOCTL_SVM_LOCATION_UNDEFINED;

uapi::kfd::kfd_ioctl_svm_attribute to_native(const SvmSetting& setting) {
  uapi::kfd::kfd_ioctl_svm_attribute native{};
  native.type = static_cast<uint32_t>(setting.attribute);
  native.value = setting.value;
  if (names_device(setting.attribute)) {
    const auto* gpu = dynamic_cast<const KfdDevice*>(setting.device);
    native.value = setting.undefined_location ? kUndefinedLocation : gpu == nullptr ? 0 : gpu->gpu_id();
  }
  return native;
}

}  // namespace

Result<std::shared_ptr<Driver>> KfdDriver::of_process() {
  const std::lock_guard guard(process_driver_lock);
  std::shared_ptr<KfdDriver> driver;
  for (const ProcessDriver& known : process_drivers()) {
    if (known.process == ::getpid()) driver = known.driver;
  }
  if (driver == nullptr) {
    driver = std::make_shared<KfdDriver>(TRY(UniqueFd::open("/dev/kfd", O_RDWR)));
    process_drivers().push_back({::getpid(), driver});
  }
  TRY(driver->discover());
  return std::shared_ptr<Driver>(driver);
}

Result<void> KfdDriver::discover() {
  if (complete_) return {};
  host_nodes_.clear();
  gpus_.clear();
  devices_.clear();

  uapi::kfd::kfd_ioctl_get_version_args version{};
  TRY(driver_ioctl<uapi::kfd::GetVersion>(kfd_.get(), version));
  if (version.major_version != uapi::kfd::KFD_IOCTL_MAJOR_VERSION) return Errno{EPROTO};
  interface_minor_ = version.minor_version;

  const std::vector<TopologyNode> nodes = TRY(read_topology());
  for (const TopologyNode& node : nodes) {
    if (node.gpu_id == 0) {
      host_nodes_.push_back(describe_cpu(node));
      continue;
    }
    std::shared_ptr<RenderFile>& file = render_files_[node.gpu_id];
    if (file == nullptr) {
      Result<std::unique_ptr<RenderFile>> opened =
          RenderFile::open(node.properties.get32("drm_render_minor"));
      // A GPU kept from this container: its node is missing or forbidden by the device cgroup.
      if (!opened && (opened.error().value == ENOENT || opened.error().value == EPERM)) continue;
      file = TRY(std::move(opened));
    }
    std::unique_ptr<KfdDevice> gpu = TRY(KfdDevice::create(*this, node, describe_gpu(node, nodes), file));
    gpus_.push_back(gpu.get());
    devices_.push_back(std::move(gpu));
  }
  complete_ = true;
  return {};
}

Result<std::shared_ptr<Memory>> KfdDriver::import_dmabuf(int dmabuf_fd, uint64_t bound_address) {
  if (gpus_.empty()) return Errno{ENODEV};
  std::vector<uint8_t> no_metadata;
  const DmabufInfo info = TRY(query_dmabuf(kfd_.get(), dmabuf_fd, no_metadata));
  KfdDevice* gpu = gpu_by_id(info.gpu_id);
  if (gpu == nullptr) return Errno{ENODEV};
  const bool local = (info.flags & uapi::kfd::KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0;
  return gpu->adopt(dmabuf_fd, info.size_bytes, local ? Placement::kDevice : Placement::kHost, bound_address);
}

Result<std::vector<uint8_t>> KfdDriver::dmabuf_metadata(int dmabuf_fd) {
  constexpr size_t kUsualBytes = 64;
  std::vector<uint8_t> metadata(kUsualBytes);
  TRY(query_dmabuf(kfd_.get(), dmabuf_fd, metadata));
  return metadata;
}

SvmRanges* KfdDriver::svm() {
  const bool all = std::ranges::all_of(gpus_, [](const KfdDevice* gpu) {
    return (gpu->properties().get("capability") & uapi::kfd_sysfs::HSA_CAP_SVMAPI_SUPPORTED) != 0;
  });
  return gpus_.empty() || !all ? nullptr : this;
}

KfdDevice* KfdDriver::gpu_by_id(uint32_t gpu_id) const {
  for (KfdDevice* gpu : gpus_) {
    if (gpu->gpu_id() == gpu_id) return gpu;
  }
  return nullptr;
}

Result<void> KfdDriver::set_attributes(const AddressSpan& span, std::span<const SvmSetting> settings) {
  std::vector<uapi::kfd::kfd_ioctl_svm_attribute> native;
  for (const SvmSetting& setting : settings) native.push_back(to_native(setting));
  return svm_ioctl(kfd_.get(), uapi::kfd::KFD_IOCTL_SVM_OP_SET_ATTR, span, native);
}

Result<void> KfdDriver::get_attributes(const AddressSpan& span, std::span<SvmSetting> settings) {
  std::vector<uapi::kfd::kfd_ioctl_svm_attribute> native;
  for (const SvmSetting& setting : settings) native.push_back(to_native(setting));
  TRY(svm_ioctl(kfd_.get(), uapi::kfd::KFD_IOCTL_SVM_OP_GET_ATTR, span, native));
  for (size_t i = 0; i < settings.size(); ++i) {
    SvmSetting& setting = settings[i];
    // Asked for "access", the kernel answers with the kind of access as the attribute's type.
    setting.attribute = static_cast<SvmAttribute>(native[i].type);
    setting.value = native[i].value;
    if (!names_device(setting.attribute)) continue;
    setting.undefined_location = native[i].value == kUndefinedLocation;
    setting.device = gpu_by_id(native[i].value);
  }
  return {};
}

std::string marketing_name(uint32_t device_id, uint32_t pci_revision, const char* table_path) {
  std::ifstream table(table_path);
  for (std::string line; std::getline(table, line);) {
    unsigned int id = 0;
    unsigned int revision = 0;
    int name_at = 0;
    if (std::sscanf(line.c_str(), "%x, %x, %n", &id, &revision, &name_at) < 2 || name_at == 0) continue;
    if (id == device_id && revision == pci_revision) return line.substr(static_cast<size_t>(name_at));
  }
  return {};
}

}  // namespace hsa_rt::kfd
