// Memory of the host that a kernel can reach through a structure among its arguments.
#pragma once

#include "cpu_device/engine.h"

namespace cpu_device {

// As long as it exists, such memory is closed, which only AddressSanitizer can do: it knows the
// blocks of the heap and the variables on a stack, and that a kernel uses one is its to report.
// A pointer that the kernel does not follow does no harm. (A second thread of the host that uses
// the same memory meanwhile would be reported as well.)
class ClosedToKernel {
public:
    explicit ClosedToKernel(const Launch& launch);
    ~ClosedToKernel();
    ClosedToKernel(const ClosedToKernel&) = delete;
};

// Blocks of the heap that kernels allocate are the device's, wherever their address lies.
void note_allocation(const void* block);
void note_free(const void* block);

// The number of the argument through which the kernel that runs got this address; 0: none.
unsigned argument_that_leads_to(const void* address);

}  // namespace cpu_device
