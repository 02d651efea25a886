// What kernels print, and what becomes of it and of the host's output
#pragma once

namespace cpu_device {

// It goes to standard output.
void flush_prints();

// Before the program ends at once: all that it has printed goes to standard output, as far as no
// other thread is just printing. Waits for nobody and allocates nothing.
void rescue_prints();

}  // namespace cpu_device
