// The runtime API's templates: typed pointers, symbols and kernels as arguments.
#pragma once

#include "engine.h"
#include "launch.h"
#include "runtime_api.h"

template <class T>
cudaError_t cudaMalloc(T** memory, size_t bytes)
{
    return cudaMalloc(reinterpret_cast<void**>(const_cast<std::remove_cv_t<T>**>(memory)), bytes);
}

template <class T>
cudaError_t cudaMallocPitch(T** memory, size_t* pitch, size_t width, size_t height)
{
    return cudaMallocPitch(reinterpret_cast<void**>(memory), pitch, width, height);
}

template <class T>
cudaError_t cudaMallocAsync(T** memory, size_t bytes, cudaStream_t stream)
{
    return cudaMallocAsync(reinterpret_cast<void**>(memory), bytes, stream);
}

template <class T>
cudaError_t cudaMallocManaged(T** memory, size_t bytes, unsigned flags = cudaMemAttachGlobal)
{
    return cudaMallocManaged(reinterpret_cast<void**>(memory), bytes, flags);
}

template <class T>
cudaError_t cudaMallocHost(T** memory, size_t bytes, unsigned flags = 0)
{
    return cudaMallocHost(reinterpret_cast<void**>(memory), bytes, flags);
}

template <class T>
cudaError_t cudaHostAlloc(T** memory, size_t bytes, unsigned flags)
{
    return cudaHostAlloc(reinterpret_cast<void**>(memory), bytes, flags);
}

template <class T>
cudaError_t cudaHostGetDevicePointer(T** on_device, void* on_host, unsigned flags)
{
    return cudaHostGetDevicePointer(reinterpret_cast<void**>(on_device), on_host, flags);
}

// __device__ and __constant__ variables, of which some are volatile

namespace cpu_device {
template <class T>
void* address_of(const T& symbol)
{
    return const_cast<void*>(static_cast<const volatile void*>(&symbol));
}
}  // namespace cpu_device

template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
    return cpu_device::copy_to_symbol(cpu_device::address_of(symbol), sizeof symbol, from, bytes,
                                      offset, kind, false, nullptr);
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes,
                                    size_t offset = 0, cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t stream = nullptr)
{
    return cpu_device::copy_to_symbol(cpu_device::address_of(symbol), sizeof symbol, from, bytes,
                                      offset, kind, true, stream);
}

template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
    return cpu_device::copy_from_symbol(to, cpu_device::address_of(symbol), sizeof symbol, bytes,
                                        offset, kind, false, nullptr);
}

template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t stream = nullptr)
{
    return cpu_device::copy_from_symbol(to, cpu_device::address_of(symbol), sizeof symbol, bytes,
                                        offset, kind, true, stream);
}

template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol)
{
    return cpu_device::symbol_address(address, cpu_device::address_of(symbol), sizeof symbol);
}

template <class Pointer, class T>
cudaError_t cudaGetSymbolAddress(Pointer** address, const T& symbol)
{
    return cudaGetSymbolAddress(reinterpret_cast<void**>(address), symbol);
}

template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol)
{
    *bytes = sizeof symbol;
    return cudaSuccess;
}

// Kernels

template <class Function>
cudaError_t cudaFuncSetAttribute(Function* kernel, cudaFuncAttribute attribute, int value)
{
    return cpu_device::set_function_attribute(reinterpret_cast<const void*>(kernel), attribute,
                                              value);
}

template <class Function>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function* kernel)
{
    return cpu_device::function_attributes(attributes, reinterpret_cast<const void*>(kernel));
}

template <class Function>
cudaError_t cudaFuncSetCacheConfig(Function*, cudaFuncCache)
{
    return cpu_device::report_error(cudaSuccess);
}

template <class Function>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* kernel,
                                                          int block_threads, size_t shared_bytes)
{
    return cpu_device::blocks_per_multiprocessor(blocks, reinterpret_cast<const void*>(kernel),
                                                 block_threads, shared_bytes);
}

template <class Function>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function* kernel,
                                                                   int block_threads,
                                                                   size_t shared_bytes, unsigned)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, block_threads,
                                                         shared_bytes);
}

template <class Function, class SharedBytes>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* min_grid, int* block_threads,
                                                           Function* kernel,
                                                           SharedBytes shared_bytes, int limit = 0)
{
    constexpr int largest = 1024, warp = 32;
    int processors = 0;
    if (const cudaError_t error =
            cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0))
        return error;
    int most = 0;
    for (int threads = limit > 0 && limit < largest ? limit : largest; threads > 0;
         threads = (threads - 1) / warp * warp) {
        int blocks = 0;
        if (const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, kernel, threads, shared_bytes(threads)))
            return error;
        if (blocks * threads > most) {
            most = blocks * threads;
            *block_threads = threads;
            *min_grid = blocks * processors;
        }
    }
    return most ? cudaSuccess : cpu_device::report_error(cudaErrorInvalidValue);
}

template <class Function>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* min_grid, int* block_threads, Function* kernel,
                                               size_t shared_bytes = 0, int limit = 0)
{
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        min_grid, block_threads, kernel, [=](int) { return shared_bytes; }, limit);
}

// Launches without <<< >>>

namespace cpu_device {

template <class... Parameters, size_t... index>
cudaError_t launch_from(const Configuration& configuration, void (*kernel)(Parameters...),
                        void** arguments, std::index_sequence<index...>)
{
    (void)arguments;
    return configuration.launch(kernel, reinterpret_cast<const void*>(kernel),
                                *static_cast<Parameters*>(arguments[index])...);
}

} // namespace cpu_device

template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr)
{
    return cpu_device::launch_from(
        {"the kernel of cudaLaunchKernel", grid, block, shared_bytes, stream}, kernel, arguments,
        std::index_sequence_for<Parameters...>());
}

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute* attrs;
    unsigned numAttrs;
};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments)
{
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute& attribute = config->attrs[i];
        const bool cooperative =
            attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative;
        if (cooperative || attribute.id == cudaLaunchAttributeClusterDimension)
            return cpu_device::not_supported(cooperative ? "a cooperative launch" : "a cluster");
    }
    cpu_device::kernel(kernel, "the kernel of cudaLaunchKernelEx")
        .on(config->gridDim, config->blockDim, config->dynamicSmemBytes,
            config->stream)(std::forward<Arguments>(arguments)...);
    return cudaPeekAtLastError();
}

template <class Function>
cudaError_t cudaLaunchCooperativeKernel(Function*, dim3, dim3, void**, size_t = 0,
                                        cudaStream_t = nullptr)
{
    return cpu_device::not_supported("a cooperative launch");
}
