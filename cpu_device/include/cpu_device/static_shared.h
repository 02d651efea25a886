// Shared memory of fixed size begins full of 0xFF in every block: NaN and -1. On a GPU it begins
// with whatever was there, so a kernel that counts on zeros must not get them here.
//
// cu2cpp writes `; CPU_DEVICE_SHARED(a, b)` behind the declaration of a and b. The first thread of
// a block that comes there fills them.
#pragma once

#include "words.h"

#include <cstddef>

#ifndef CPU_DEVICE_LINT

namespace cpu_device {

// The number of the block that runs, which the next on this worker will not have. It is not zero,
// nor is its like in the macro, for the reason that language.h gives.
inline thread_local unsigned long long block_serial = 1;

void fill_shared(const volatile void* memory, size_t bytes);

#ifdef CPU_DEVICE_TSAN
// The engine's, for all threads of a block use `seen`, and that is no race of the program's.
bool is_new_in_block(unsigned long long& seen);
#else
__attribute__((always_inline)) inline bool is_new_in_block(unsigned long long& seen)
{
    if (__builtin_expect(seen == block_serial, true))
        return false;
    seen = block_serial;
    return true;
}
#endif

template <class... Variables>
void fill_all_shared(Variables&... variables)
{
    (fill_shared(__builtin_addressof(variables), sizeof variables), ...);
}

// A variable at file scope has no place that a thread comes by, so it is filled before the block.
struct SharedOfFile {
    void (*const fill)();
    SharedOfFile* const next;

    explicit SharedOfFile(void (*fill)());
    SharedOfFile(const SharedOfFile&) = delete;
};

} // namespace cpu_device

#define CPU_DEVICE_SHARED(...)                                                                     \
    do {                                                                                           \
        CPU_DEVICE_STATIC thread_local unsigned long long cpu_device_seen = 1;                     \
        if (::cpu_device::is_new_in_block(cpu_device_seen))                                        \
            ::cpu_device::fill_all_shared(__VA_ARGS__);                                            \
    } while (false)

// `name` is one of the variables'.
#define CPU_DEVICE_SHARED_OF_FILE(name, ...)                                                       \
    static ::cpu_device::SharedOfFile cpu_device_fills_##name                                      \
    {                                                                                              \
        [] { ::cpu_device::fill_all_shared(__VA_ARGS__); }                                         \
    }

#endif
