// The CPU device's stand-in for CUDA's header of this name: reductions over a group.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define CPU_DEVICE_OPERATION(name, expression)                                                     \
    template <class T>                                                                             \
    struct name {                                                                                  \
        __host__ __device__ T operator()(T a, T b) const { return expression; }                    \
    };
CPU_DEVICE_OPERATION(plus, a + b)
CPU_DEVICE_OPERATION(less, b < a ? b : a)
CPU_DEVICE_OPERATION(greater, a < b ? b : a)
CPU_DEVICE_OPERATION(bit_and, a& b)
CPU_DEVICE_OPERATION(bit_or, a | b)
CPU_DEVICE_OPERATION(bit_xor, a ^ b)
#undef CPU_DEVICE_OPERATION

template <class Group, class T, class Operation>
__device__ T reduce(const Group& group, T value, Operation operation,
                    unsigned line = __builtin_LINE())
{
    return cpu_device::reduce(group.mask, value, operation, "reduce()", line);
}

} // namespace cooperative_groups
