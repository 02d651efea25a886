// What `extern __shared__ T name[];` at file scope becomes. Such an array lies elsewhere for every
// block, so the name is not a pointer but an object that asks for the pointer at each use.

#pragma once

#include "words.h"

namespace cpu_device {

__device__ void* dynamic_shared();

template <class T>
struct dynamic_shared_view {
    __device__ operator T*() const { return static_cast<T*>(dynamic_shared()); }

    // For casts: `(float4*)name` reads the same bytes as another type.
    template <class U>
    __device__ explicit operator U*() const
    {
        return static_cast<U*>(dynamic_shared());
    }
};

} // namespace cpu_device
