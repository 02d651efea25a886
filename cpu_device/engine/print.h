// What kernels print
#pragma once

namespace cpu_device {

// It goes to standard output.
void flush_prints();

}  // namespace cpu_device
