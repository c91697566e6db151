/* The ABI of engine plug-ins: shared objects that execute what Understudy's engines cannot, kernel
 * dispatches.
 *
 * A plug-in exports one function, understudy_engine_plugin(), which returns a table that stays valid while
 * the object is loaded. Plain C, so that any compiler can build one. Addresses are those of the dispatching
 * process on its GPU; memory is reached only through the accessors, which go through the process's GPU page
 * tables: when one fails, the queue stops with a memory fault, whatever the plug-in returns.
 *
 * Threads: dispatch() may be called from one thread per GPU at the same time, for one `self`.
 */
#ifndef UNDERSTUDY_ENGINE_PLUGIN_H_
#define UNDERSTUDY_ENGINE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UNDERSTUDY_ENGINE_ABI_VERSION 1

enum understudy_dispatch_result {
  UNDERSTUDY_DISPATCH_EXECUTED = 0,    /* done; the completion signal is sent */
  UNDERSTUDY_DISPATCH_NOT_HANDLED = 1, /* not this plug-in's; as if it were not there */
  UNDERSTUDY_DISPATCH_FAILED = 2       /* an instruction no wave can execute: the queue's error path */
};

struct understudy_memory {
  void* context;
  /* Zero when all bytes were moved. */
  int (*read)(void* context, uint64_t address, void* into, size_t size_bytes);
  int (*write)(void* context, uint64_t address, const void* from, size_t size_bytes);
};

struct understudy_dispatch {
  size_t struct_bytes;           /* of this struct, as the host knows it; it may grow */
  const char* gpu;               /* profile: "gfx90a" */
  uint32_t gfx_target_version;   /* 90010 */
  const void* packet;            /* the 64-byte AQL packet */
  uint64_t kernel_object;        /* address of the kernel descriptor */
  const void* kernel_descriptor; /* its 64 bytes; null when they cannot be read */
  uint64_t kernarg_address;
  const struct understudy_memory* memory;
};

struct understudy_engine_table {
  uint32_t abi_version; /* UNDERSTUDY_ENGINE_ABI_VERSION */
  const char* name;
  void* (*create)(void); /* null result: refuses to work */
  void (*destroy)(void* self);
  enum understudy_dispatch_result (*dispatch)(void* self, const struct understudy_dispatch* dispatch);
};

const struct understudy_engine_table* understudy_engine_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
