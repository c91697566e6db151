// All generated interfaces and their variants, for tests that hold for each of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "uapi/descriptor.h"

struct Interface {
  std::string name;  // as in the namespace: "kfd", "virtgpu::variants::linux_6_1"
  std::span<const uapi::IoctlDescriptor> ioctls;
  std::span<const uapi::StructDescriptor> structs;
  std::span<const uapi::ConstantDescriptor> constants;
};

std::vector<Interface> interfaces();
Interface interface(const std::string& name);

// Every struct described for the interface and, in them, the unnamed ones.
void for_each_struct(const Interface& interface, auto&& visit) {
  auto nested = [&](auto&& self, const uapi::StructDescriptor& type) -> void {
    visit(type);
    for (const uapi::FieldDescriptor& field : type.fields) {
      if (field.nested != nullptr) self(self, *field.nested);
    }
  };
  for (const uapi::StructDescriptor& type : interface.structs) nested(nested, type);
}
