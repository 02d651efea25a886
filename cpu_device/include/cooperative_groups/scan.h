// The CPU device's stand-in for CUDA's header of this name: prefix sums over a group.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operation = plus<T>>
__device__ T inclusive_scan(const Group& group, T value, Operation operation = Operation(),
                            unsigned line = __builtin_LINE())
{
    const cpu_device::Met met =
        cpu_device::meet(group.mask, cpu_device::to_bits(value), "inclusive_scan()", line);
    unsigned left = cpu_device_only::lanes_below(met.arrived, cpu_device::lane());
    if (!left)
        return value;
    T sum = cpu_device::from_bits<T>(met.values[__builtin_ctz(left)]);
    while (left &= left - 1)
        sum = operation(sum, cpu_device::from_bits<T>(met.values[__builtin_ctz(left)]));
    return operation(sum, value);
}

// The first gets T().
template <class Group, class T, class Operation = plus<T>>
__device__ T exclusive_scan(const Group& group, T value, Operation operation = Operation(),
                            unsigned line = __builtin_LINE())
{
    const cpu_device::Met met =
        cpu_device::meet(group.mask, cpu_device::to_bits(value), "exclusive_scan()", line);
    unsigned left = cpu_device_only::lanes_below(met.arrived, cpu_device::lane());
    if (!left)
        return T();
    T sum = cpu_device::from_bits<T>(met.values[__builtin_ctz(left)]);
    while (left &= left - 1)
        sum = operation(sum, cpu_device::from_bits<T>(met.values[__builtin_ctz(left)]));
    return sum;
}

} // namespace cooperative_groups
