// dma-buf descriptors: memory files underneath, whose few other manners are added here.
//
// Owner: none; what the server has said about an inode is remembered (inode numbers of memory files are not
// given twice). Units: bytes. Errors: -errno results. Thread-safety: all functions from any thread. Mirrors:
// drivers/dma-buf/dma-buf.c: dma_buf_llseek, dma_buf_mmap_internal, dma_buf_ioctl.
#pragma once

#include <sys/stat.h>

#include <cstdint>

#include "sim/door/shim/descriptor.h"

namespace understudy::shim {

bool is_dma_buf(const Descriptor& descriptor);

// ioctl's number space of dma-bufs: worth a question though the machine has not been met yet.
bool is_dma_buf_command(unsigned command);

long dma_buf_seek(const struct stat& info, std::int64_t offset, int whence);
long dma_buf_ioctl(unsigned command, std::uint64_t argument);
bool dma_buf_may_map(const struct stat& info, std::uint64_t length, std::uint64_t offset);

}  // namespace understudy::shim
