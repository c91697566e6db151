// Shared virtual memory: attributes of ordinary process memory.
#include <set>

#include "runtime/api/entry.h"
#include "runtime/core/signal_wait.h"

using namespace hsa_rt;
using namespace hsa_rt::api;

namespace {

constexpr uint32_t kMaxGranularity = 18;  // 2^18 pages are 1 GiB

Status<AddressSpan> pages_of(void* ptr, size_t size) {
  AddressSpan span;
  uint64_t end = 0;
  TRY(require(AddressSpan::make(ptr, size, span) && align_up(span.end(), kPageBytes, end)));
  const uint64_t begin = page_floor(span.base);
  return AddressSpan{begin, end - begin};
}

Status<SvmRanges*> svm_of(Runtime& runtime) {
  SvmRanges* ranges = runtime.svm();
  if (ranges == nullptr) return kErrorNotSupported;
  return ranges;
}

uint32_t flag_of(uint64_t attribute) {
  switch (attribute) {
    case HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG:
      return kSvmCoherent;
    case HSA_AMD_SVM_ATTRIB_READ_ONLY:
      return kSvmReadOnly;
    case HSA_AMD_SVM_ATTRIB_HIVE_LOCAL:
      return kSvmHiveLocal;
    case HSA_AMD_SVM_ATTRIB_READ_MOSTLY:
      return kSvmReadMostly;
    case HSA_AMD_SVM_ATTRIB_GPU_EXEC:
      return kSvmExecutable;
    default:
      return 0;
  }
}

SvmSetting location(SvmAttribute attribute, const Agent* agent) {
  SvmSetting setting;
  setting.attribute = attribute;
  setting.undefined_location = agent == nullptr;
  if (agent != nullptr && agent->kind() == DeviceKind::kGpu) setting.device = &agent->device();
  return setting;
}

SvmSetting plain(SvmAttribute attribute, uint32_t value) {
  SvmSetting setting;
  setting.attribute = attribute;
  setting.value = value;
  return setting;
}

// Turns the caller's list into settings, refusing what contradicts itself.
class SettingsBuilder {
 public:
  explicit SettingsBuilder(Runtime& runtime) : runtime_(runtime) {}

  Status<void> add(const hsa_amd_svm_attribute_pair_t& pair) {
    switch (pair.attribute) {
      case HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG:
        TRY(once(pair.attribute));
        TRY(require(pair.value <= HSA_AMD_SVM_GLOBAL_FLAG_COARSE_GRAINED));
        set_flag(kSvmCoherent, pair.value == HSA_AMD_SVM_GLOBAL_FLAG_FINE_GRAINED);
        return {};
      case HSA_AMD_SVM_ATTRIB_READ_ONLY:
      case HSA_AMD_SVM_ATTRIB_HIVE_LOCAL:
      case HSA_AMD_SVM_ATTRIB_READ_MOSTLY:
      case HSA_AMD_SVM_ATTRIB_GPU_EXEC:
        TRY(once(pair.attribute));
        set_flag(flag_of(pair.attribute), pair.value != 0);
        return {};
      case HSA_AMD_SVM_ATTRIB_MIGRATION_GRANULARITY:
        TRY(once(pair.attribute));
        settings_.push_back(plain(SvmAttribute::kGranularity,
                                  static_cast<uint32_t>(std::min<uint64_t>(pair.value, kMaxGranularity))));
        return {};
      case HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION: {
        TRY(once(pair.attribute));
        const Agent* agent = pair.value == 0 ? nullptr : TRY(agent_for(runtime_, {pair.value}));
        settings_.push_back(location(SvmAttribute::kPreferredLocation, agent));
        return {};
      }
      case HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE:
        return add_access(SvmAttribute::kAccess, pair.value);
      case HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE:
        return add_access(SvmAttribute::kAccessInPlace, pair.value);
      case HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS:
        return add_access(SvmAttribute::kNoAccess, pair.value);
      default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
  }

  std::vector<SvmSetting> finish() {
    clear_flags_ &= ~(set_flags_ & kSvmHostAccess);  // one CPU with access is enough
    if (clear_flags_ != 0) settings_.push_back(plain(SvmAttribute::kClearFlags, clear_flags_));
    if (set_flags_ != 0) settings_.push_back(plain(SvmAttribute::kSetFlags, set_flags_));
    return std::move(settings_);
  }

 private:
  Status<void> once(uint64_t attribute) {
    return require(attributes_.insert(attribute).second, HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
  }

  void set_flag(uint32_t flag, bool on) { (on ? set_flags_ : clear_flags_) |= flag; }

  Status<void> add_access(SvmAttribute attribute, uint64_t agent_handle) {
    Agent* const agent = TRY(agent_for(runtime_, {agent_handle}));
    TRY(require(agents_.insert(agent).second, HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS));
    if (agent->kind() == DeviceKind::kCpu) {
      set_flag(kSvmHostAccess, attribute != SvmAttribute::kNoAccess);
    } else {
      settings_.push_back(location(attribute, agent));
    }
    return {};
  }

  Runtime& runtime_;
  std::set<uint64_t> attributes_;
  std::set<const Agent*> agents_;
  std::vector<SvmSetting> settings_;
  uint32_t set_flags_ = 0;
  uint32_t clear_flags_ = 0;
};

uint64_t agent_handle_of(Runtime& runtime, const SvmSetting& setting) {
  if (setting.undefined_location) return 0;
  if (setting.device == nullptr) return runtime.agents().agents().front().handle().handle;  // system memory
  return runtime.agents().agent_of(*setting.device)->handle().handle;
}

// A question for the driver, or the flags, which are asked for once at the end.
Status<SvmSetting> question_for(Runtime& runtime, const hsa_amd_svm_attribute_pair_t& pair) {
  switch (pair.attribute) {
    case HSA_AMD_SVM_ATTRIB_MIGRATION_GRANULARITY:
      return plain(SvmAttribute::kGranularity, 0);
    case HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION:
      return plain(SvmAttribute::kPreferredLocation, 0);
    case HSA_AMD_SVM_ATTRIB_PREFETCH_LOCATION:
      return plain(SvmAttribute::kPrefetchLocation, 0);
    case HSA_AMD_SVM_ATTRIB_ACCESS_QUERY: {
      const Agent* const agent = TRY(agent_for(runtime, {pair.value}));
      if (agent->kind() == DeviceKind::kCpu) return plain(SvmAttribute::kSetFlags, 0);
      return location(SvmAttribute::kAccess, agent);
    }
    default:
      TRY(require(flag_of(pair.attribute) != 0));
      return plain(SvmAttribute::kSetFlags, 0);
  }
}

void answer_pair(Runtime& runtime, hsa_amd_svm_attribute_pair_t& pair, const SvmSetting& answered,
                 uint32_t set_flags, uint32_t clear_flags) {
  switch (pair.attribute) {
    case HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG:
      pair.value = (set_flags & kSvmCoherent) != 0     ? HSA_AMD_SVM_GLOBAL_FLAG_FINE_GRAINED
                   : (clear_flags & kSvmCoherent) != 0 ? HSA_AMD_SVM_GLOBAL_FLAG_COARSE_GRAINED
                                                       : HSA_AMD_SVM_GLOBAL_FLAG_INDETERMINATE;
      return;
    case HSA_AMD_SVM_ATTRIB_MIGRATION_GRANULARITY:
      pair.value = answered.value;
      return;
    case HSA_AMD_SVM_ATTRIB_PREFERRED_LOCATION:
    case HSA_AMD_SVM_ATTRIB_PREFETCH_LOCATION:
      pair.value = agent_handle_of(runtime, answered);
      return;
    case HSA_AMD_SVM_ATTRIB_ACCESS_QUERY:
      switch (answered.attribute) {
        case SvmAttribute::kAccess:
          pair.attribute = HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE;
          return;
        case SvmAttribute::kAccessInPlace:
          pair.attribute = HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE;
          return;
        case SvmAttribute::kNoAccess:
          pair.attribute = HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS;
          return;
        default:  // a CPU, for which the flags tell
          pair.attribute = (set_flags & kSvmHostAccess) != 0 ? HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE
                                                             : HSA_AMD_SVM_ATTRIB_AGENT_NO_ACCESS;
          return;
      }
    default:
      pair.value = (set_flags & flag_of(pair.attribute)) != 0;
  }
}

}  // namespace

hsa_status_t hsa_amd_svm_attributes_set(void* ptr, size_t size, hsa_amd_svm_attribute_pair_t* attribute_list,
                                        size_t attribute_count) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && size != 0 && (attribute_list != nullptr || attribute_count == 0)));
    SvmRanges* const ranges = TRY(svm_of(runtime));
    SettingsBuilder builder(runtime);
    for (size_t i = 0; i < attribute_count; ++i) TRY(builder.add(attribute_list[i]));
    const std::vector<SvmSetting> settings = builder.finish();
    return ranges->set_attributes(TRY(pages_of(ptr, size)), settings).error_as(HSA_STATUS_ERROR);
  });
}

hsa_status_t hsa_amd_svm_attributes_get(void* ptr, size_t size, hsa_amd_svm_attribute_pair_t* attribute_list,
                                        size_t attribute_count) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && size != 0 && attribute_list != nullptr && attribute_count != 0));
    SvmRanges* const ranges = TRY(svm_of(runtime));
    std::vector<SvmSetting> questions;
    for (size_t i = 0; i < attribute_count; ++i)
      questions.push_back(TRY(question_for(runtime, attribute_list[i])));
    questions.push_back(plain(SvmAttribute::kClearFlags, 0));
    questions.push_back(plain(SvmAttribute::kSetFlags, 0));
    TRY(ranges->get_attributes(TRY(pages_of(ptr, size)), questions).error_as(HSA_STATUS_ERROR));
    const uint32_t set_flags = questions[attribute_count + 1].value;
    const uint32_t clear_flags = questions[attribute_count].value;
    for (size_t i = 0; i < attribute_count; ++i) {
      answer_pair(runtime, attribute_list[i], questions[i], set_flags, clear_flags);
    }
    return {};
  });
}

hsa_status_t hsa_amd_svm_prefetch_async(void* ptr, size_t size, hsa_agent_t agent, uint32_t num_dep_signals,
                                        const hsa_signal_t* dep_signals, hsa_signal_t completion_signal) {
  return with_runtime([&](Runtime& runtime) -> Status<void> {
    TRY(require(ptr != nullptr && size != 0 && (num_dep_signals == 0) == (dep_signals == nullptr)));
    SvmRanges* const ranges = TRY(svm_of(runtime));
    const AddressSpan span = TRY(pages_of(ptr, size));
    const SvmSetting target = location(SvmAttribute::kPrefetchLocation, TRY(agent_for(runtime, agent)));
    std::vector<std::shared_ptr<Signal>> dependencies;
    for (uint32_t i = 0; i < num_dep_signals; ++i)
      dependencies.push_back(TRY(signal_for(runtime, dep_signals[i])));
    const std::shared_ptr<Signal> completion =
        completion_signal.handle == 0 ? nullptr : TRY(signal_for(runtime, completion_signal));
    runtime.events().run_after(std::move(dependencies), [ranges, span, target, completion] {
      (void)ranges->set_attributes(span, {&target, 1});  // a prefetch is advice; the memory works without it
      if (completion == nullptr) return;
      completion->slot().value().fetch_sub(1, std::memory_order_seq_cst);
      completion->value_changed();
    });
    return {};
  });
}
