// Ioctl tables and the one way a handler is run: copy in, ask the fault plan, call, copy out, trace.
//
// Owner: constexpr tables in the drivers. Units: bytes. Errors: EFAULT from the copies; everything else is
// the handler's. Thread-safety: stateless. Mirrors: the common half of amdkfd/kfd_chardev.c: kfd_ioctl and
// drm_ioctl.c: drm_ioctl; their differing halves (look-up, size rules, permission checks) are kfd/dispatch
// and drm/dispatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "sim/core/call.h"
#include "sim/core/file.h"
#include "uapi/descriptor.h"

namespace understudy {

struct IoctlRow {
  std::uint32_t nr = 0;
  const uapi::IoctlDescriptor& (*descriptor)() = nullptr;
  // Null: a row without behaviour; `unsupported_errno` is the answer of a kernel without the feature.
  Outcome (*invoke)(File& file, Call& call) = nullptr;
  std::uint32_t flags = 0;
  int unsupported_errno = 0;
};

namespace ioctl_table_detail {
template <typename FileType, typename Args>
struct HandlerTraits;

template <typename Method>
struct MethodTraits;
template <typename F, typename A>
struct MethodTraits<Outcome (F::*)(Call&, A&)> {
  using FileType = F;
  using Args = A;
};
// An ioctl without a struct.
template <typename F>
struct MethodTraits<Outcome (F::*)(Call&)> {
  using FileType = F;
  using Args = void;
};

template <typename Tag, auto handler>
Outcome invoke(File& file, Call& call) {
  using Traits = MethodTraits<decltype(handler)>;
  using Args = typename Traits::Args;
  static_assert(std::is_same_v<Args, typename Tag::Args>);
  auto& typed_file = static_cast<typename Traits::FileType&>(file);
  if constexpr (std::is_void_v<Args>) {
    return (typed_file.*handler)(call);
  } else {
    // The dispatcher sized call.arguments to at least the kernel's struct.
    return (typed_file.*handler)(call, *reinterpret_cast<Args*>(call.arguments.data()));
  }
}
}  // namespace ioctl_table_detail

// row<uapi::kfd::AllocMemoryOfGpu, &KfdFile::alloc_memory_of_gpu>(flags)
template <typename Tag, auto handler>
constexpr IoctlRow row(std::uint32_t flags = 0) {
  return IoctlRow{Tag::kNr, &Tag::descriptor, &ioctl_table_detail::invoke<Tag, handler>, flags, 0};
}

template <typename Tag>
constexpr IoctlRow unsupported(int errno_of_a_kernel_without_it, std::uint32_t flags = 0) {
  return IoctlRow{Tag::kNr, &Tag::descriptor, nullptr, flags, errno_of_a_kernel_without_it};
}

// How many bytes travel; the kernels differ in how they derive these from the two command words.
struct CopyPlan {
  std::size_t buffer_bytes = 0;  // what the handler sees, zero-filled beyond copy_in_bytes
  std::size_t copy_in_bytes = 0;
  std::size_t copy_out_bytes = 0;  // copied back even when the handler fails
  int refusal_errno = 0;           // known before, answered after the copy-in (DRM's permission check)
};

// Runs one row to its finish. Every dispatcher ends here, so faults and traces see every call.
void run_row(const CallRef& call, const IoctlRow& row, const CopyPlan& plan);

// Ends a call that never reached a row (unknown number, permission), still traced and counted.
void refuse(const CallRef& call, Errno error);

}  // namespace understudy
