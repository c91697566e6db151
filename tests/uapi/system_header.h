// What a kernel header installed on this machine defines, read by generated code (system_headers.py).
#pragma once

#define VIRTIO_RING_NO_LEGACY  // leaves out the functions of <linux/virtio_ring.h>, which are not C++

// Everything that the kernel headers include: it must not be included inside a namespace.
#include <asm/ioctl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

struct SystemHeader {
  struct Place {
    std::size_t offset;
    std::size_t size;
  };
  struct Constant {
    std::uint64_t value;
    std::size_t size;  // of its C type
  };
  std::string header;  // empty: not installed
  std::map<std::string, std::size_t> structs = {};
  std::map<std::string, Place> fields = {};  // "struct.field"
  std::map<std::string, Constant> constants = {};
};

struct Missing {};

template <typename Value>
void add_constant(SystemHeader& found, const char* name, Value value) {
  if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
    found.constants[name] = {static_cast<std::uint64_t>(value), sizeof(value)};
  }
}

// The type is a template parameter, so that `requires` may ask for what it does not have.
#define PROBE_FIELD(type, path)                                                                  \
  if constexpr (requires(T & object) { object.path; }) {                                         \
    found.fields[#type "." #path] = {offsetof(T, path), sizeof(static_cast<T*>(nullptr)->path)}; \
  }
#define PROBE_STRUCT(type, fields_of_it)     \
  [&found]<typename T>(T*) {                 \
    if constexpr (requires { sizeof(T); }) { \
      found.structs[#type] = sizeof(T);      \
      fields_of_it                           \
    }                                        \
  }(static_cast<type*>(nullptr))

SystemHeader system_kfd();
SystemHeader system_kfd_rocm();
SystemHeader system_kfd_sysfs();
SystemHeader system_drm();
SystemHeader system_amdgpu();
SystemHeader system_amdxdna();
SystemHeader system_virtgpu();
SystemHeader system_virtio_gpu_wire();
