// What the headers ask of the engine, which is compiled apart (cpu_device/engine).
#pragma once

#include "runtime_types.h"
#include "vector_types.h"
#include "words.h"

namespace cpu_device {

// One launch of a kernel, with its arguments. The engine owns it once it is submitted.
class Launch {
public:
    const char* name = "";
    const void* function = nullptr; // null where the launch does not tell: a template kernel
    dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;

    struct PointerArgument {
        unsigned number; // counted from 1
        const void* address;
    };
    static constexpr unsigned max_pointers = 16;
    PointerArgument pointers[max_pointers];
    unsigned pointer_count = 0;

    // Where the arguments lie that are structures, which may hold pointers. For AddressSanitizer.
    struct Structure {
        unsigned number; // counted from 1
        const void* start;
        size_t bytes;
    };
    static constexpr unsigned max_structures = 16;
    Structure structures[max_structures];
    unsigned structure_count = 0;

    virtual ~Launch() = default;

    // Runs threads of the block, one after another, on the calling stack: all that
    // next_thread() gives.
    virtual void run_threads() = 0;
};

cudaError_t submit(Launch* launch);

// Ends the thread that ran before, if there is one, and makes the next its successor: its
// threadIdx is set. False when none is left to start.
bool next_thread();

__device__ void* dynamic_shared();

// Ends the running kernel with this error, after a line that says who it was and what it did.
[[noreturn]] __device__ void end_kernel(cudaError_t error, const char* what);

cudaError_t copy_to_symbol(void* symbol, size_t symbol_bytes, const void* from, size_t bytes,
                           size_t offset, cudaMemcpyKind kind, bool async, cudaStream_t stream);
cudaError_t copy_from_symbol(void* to, const void* symbol, size_t symbol_bytes, size_t bytes,
                             size_t offset, cudaMemcpyKind kind, bool async, cudaStream_t stream);
cudaError_t symbol_address(void** address, const void* symbol, size_t symbol_bytes);
cudaError_t set_function_attribute(const void* function, cudaFuncAttribute attribute, int value);
cudaError_t function_attributes(cudaFuncAttributes* attributes, const void* function);
cudaError_t blocks_per_multiprocessor(int* blocks, const void* function, int block_threads,
                                      size_t shared_bytes);
cudaError_t report_error(cudaError_t error);
cudaError_t not_supported(const char* what); // after a line that says so

} // namespace cpu_device
