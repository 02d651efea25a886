// Memory comes from the operating system in pages.
#pragma once

#include <cstddef>
#include <unistd.h>

namespace cpu_device {

inline size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }

inline size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace cpu_device
