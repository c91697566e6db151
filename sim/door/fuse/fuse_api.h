// libfuse at the one API version this project is written against.
#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
