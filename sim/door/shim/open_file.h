// Opening what lies in the machine's tree, and putting right what was opened there without our noticing.
//
// Owner: the caller owns the descriptor. Units: none. Errors: -errno. Thread-safety: all functions from any
// thread. Mirrors: fs/open.c: do_sys_openat2 with devtmpfs and kernfs below it.
#pragma once

#include <sys/types.h>

#include "sim/door/shim/place.h"

namespace understudy::shim {

// Requires place.in_tree().
long open_in_tree(const Place& place, int flags);

// A relative path may have led to a placeholder (the working directory lies in the tree): puts what it stands
// for under the same number. Returns `fd`, or -errno; the caller keeps it either way.
long finish_open(int fd, int flags);

}  // namespace understudy::shim
