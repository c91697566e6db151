// What the shim puts in front of libc: a definition that the dynamic linker finds first.
#pragma once

#include <sys/types.h>

#define UNDERSTUDY_EXPORT extern "C" __attribute__((visibility("default")))

// libc's end of a program that its compiler's checks have found to overrun a buffer.
extern "C" [[noreturn]] void __chk_fail();

// One definition serves a function and its large-file twin: on 64-bit systems they are the same function.
static_assert(sizeof(off_t) == 8);
#define UNDERSTUDY_ALIAS(function) __attribute__((visibility("default"), alias(#function)))
