#include "sim/kfd/topology/module_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace understudy::kfd {
namespace {

constexpr const char* kDirectory = "module/amdgpu";
// Only the packaged driver has a version; the kernel's own is as old as the kernel.
constexpr const char* kDkmsVersion = "6.12.12\n";

struct Parameter {
  const char* name;
  const char* value;
};

// The parameters that programs and users look at, with their defaults (amdgpu_drv.c).
constexpr Parameter kParameters[] = {
    {"cwsr_enable", "1"},
    {"debug_largebar", "0"},
    {"dpm", "-1"},
    {"exp_hw_support", "0"},
    {"gartsize", "4294967295"},
    {"gpu_recovery", "-1"},
    {"gttsize", "-1"},
    {"halt_if_hws_hang", "0"},
    {"hws_gws_support", "N"},
    {"hws_max_conc_proc", "-1"},
    {"ignore_crat", "0"},
    {"lockup_timeout", ""},
    {"max_num_of_queues_per_device", "4096"},
    {"mes", "0"},
    {"mtype_local", "0"},
    {"no_queue_eviction_on_vm_fault", "0"},
    {"no_system_mem_limit", "N"},
    {"noretry", "-1"},
    {"pcie_p2p", "Y"},
    {"ppfeaturemask", "0xfff7bfff"},
    {"queue_preemption_timeout_ms", "9000"},
    {"ras_enable", "-1"},
    {"ras_mask", "0xffffffff"},
    {"runpm", "-1"},
    {"sched_policy", "0"},
    {"send_sigterm", "0"},
    {"use_xgmi_p2p", "1"},
    {"vis_vramlimit", "0"},
    {"vm_fragment_size", "-1"},
    {"vm_size", "-1"},
    {"vramlimit", "0"},
};

// Open files of the driver's nodes hold the module.
Result<std::string> reference_count(const FileTable& files) {
  const std::vector<FileRef> all = files.all();
  const auto count = std::count_if(all.begin(), all.end(), [](const FileRef& file) {
    const std::string label = file->label();
    return label == "kfd" || label.starts_with("dri/");
  });
  return fmt::format("{}\n", count);
}

}  // namespace

void add_amdgpu_module(Machine& machine) {
  SysfsTree& sysfs = machine.sysfs();
  const std::string directory = kDirectory;
  sysfs.attribute(directory + "/initstate", "live\n");
  sysfs.attribute(directory + "/coresize", "17129472\n");
  sysfs.attribute(directory + "/initsize", "0\n");
  sysfs.attribute(directory + "/taint", "\n");
  sysfs.attribute(directory + "/refcnt", [&files = machine.files()] { return reference_count(files); });
  if (machine.settings().flavour.rocm_dkms) sysfs.attribute(directory + "/version", kDkmsVersion);
  for (const Parameter& parameter : kParameters)
    sysfs.attribute(fmt::format("{}/parameters/{}", directory, parameter.name),
                    std::string(parameter.value) + "\n");
  sysfs.directory(directory + "/holders");
  sysfs.link_to(directory + "/drivers/pci:amdgpu", "bus/pci/drivers/amdgpu");
  sysfs.link_to("bus/pci/drivers/amdgpu/module", directory);
}

}  // namespace understudy::kfd
