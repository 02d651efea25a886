// The runtime API: errors and devices. There is one device.

#include "engine.h"
#include "sanitizers.h"
#include "settings.h"

#include "cpu_device/runtime_api.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace cpu_device;

const char* cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define ERROR(name, value, text) \
    case name: \
        return #name;
#include "cpu_device/error_list.h"
#undef ERROR
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define ERROR(name, value, text) \
    case name: \
        return text;
#include "cpu_device/error_list.h"
#undef ERROR
    }
    return "unrecognized error code";
}

// After a kernel's failure, too, the last error is forgotten once it has been asked for; but then
// the next call fails again.
cudaError_t cudaGetLastError()
{
    const cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError()
{
    return last_error;
}

cudaError_t cudaGetDeviceCount(int* count)
{
    return api([=](Engine&) {
        if (!count)
            return cudaErrorInvalidValue;
        *count = 1;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDevice(int device)
{
    return api([=](Engine&) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
    return cudaSetDevice(device);
}

cudaError_t cudaGetDevice(int* device)
{
    return api([=](Engine&) {
        if (!device)
            return cudaErrorInvalidValue;
        will_write(device, sizeof *device);
        *device = 0;
        return cudaSuccess;
    });
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return report_error(cudaSuccess);
}

cudaError_t cudaGetDeviceFlags(unsigned* flags)
{
    return api([=](Engine&) {
        if (!flags)
            return cudaErrorInvalidValue;
        *flags = cudaDeviceMapHost;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceSynchronize()
{
    return api([](Engine& e) {
        const cudaError_t error = may_wait(e);
        return error ? error : drain(e);
    });
}

// A process in which a kernel has failed does not get its device back.
cudaError_t cudaDeviceReset()
{
    return whatever_happened([](Engine& e) {
        if (drain(e) != cudaSuccess) {
            e.sticky = cudaErrorDevicesUnavailable;
            return cudaSuccess;
        }
        e.memory.free_all();
        return cudaSuccess;
    });
}

namespace {

constexpr int largest = 2147483647;

int l2_cache_bytes()
{
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 && bytes < largest ? int(bytes) : 0;
}

// The features are those of compute capability 8.0. What a CPU does not have, or does not tell, is
// 0, such as clock rates and the width of the memory bus.
bool attribute_of_device(cudaDeviceAttr attribute, int& value)
{
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxThreadsPerMultiProcessor:     // a worker runs one block at a time
        value = max_threads;
        return true;
    case cudaDevAttrMaxBlockDimZ:
        value = 64;
        return true;
    case cudaDevAttrMaxGridDimX:
        value = largest;
        return true;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        value = 65535;
        return true;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        value = 48 << 10;
        return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        value = 227 << 10;
        return true;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        value = 228 << 10;
        return true;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        value = 1 << 10;
        return true;
    case cudaDevAttrTotalConstantMemory:
        value = 64 << 10;
        return true;
    case cudaDevAttrWarpSize:
        value = warp_size;
        return true;
    case cudaDevAttrMaxPitch:
        value = largest;
        return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        value = 65536;
        return true;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment:
        value = 512;
        return true;
    case cudaDevAttrTexturePitchAlignment:
        value = 32;
        return true;
    case cudaDevAttrMultiProcessorCount:
        value = int(settings().workers);
        return true;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
        value = 1;
        return true;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
        value = 2;
        return true;
    case cudaDevAttrL2CacheSize:
        value = l2_cache_bytes();
        return true;
    case cudaDevAttrComputeCapabilityMajor:
        value = 8;
        return true;
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
    case cudaDevAttrGlobalMemoryBusWidth:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrTccDriver:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrMultiGpuBoardGroupID:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrCanFlushRemoteWrites:
    case cudaDevAttrMaxPersistingL2CacheSize:
    case cudaDevAttrMaxAccessPolicyWindowSize:
    case cudaDevAttrHostRegisterReadOnlySupported:
    case cudaDevAttrClusterLaunch:
        value = 0;
        return true;
    }
    return false;
}

int attribute_of_device(cudaDeviceAttr attribute)
{
    int value = 0;
    attribute_of_device(attribute, value);
    return value;
}

}  // namespace

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device)
{
    return api([=](Engine&) {
        if (device != 0)
            return cudaErrorInvalidDevice;
        if (!value || !attribute_of_device(attribute, *value))
            return cudaErrorInvalidValue;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device)
{
    return api([=](Engine& e) {
        if (!properties)
            return cudaErrorInvalidValue;
        if (device != 0)
            return cudaErrorInvalidDevice;
        const auto get = [](cudaDeviceAttr attribute) { return attribute_of_device(attribute); };
        cudaDeviceProp& p = *properties;
        p = {};
        std::strcpy(p.name, "CPU device");
        p.totalGlobalMem = e.memory.total_bytes();
        p.sharedMemPerBlock = get(cudaDevAttrMaxSharedMemoryPerBlock);
        p.regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
        p.warpSize = get(cudaDevAttrWarpSize);
        p.memPitch = get(cudaDevAttrMaxPitch);
        p.maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
        p.maxThreadsDim[0] = get(cudaDevAttrMaxBlockDimX);
        p.maxThreadsDim[1] = get(cudaDevAttrMaxBlockDimY);
        p.maxThreadsDim[2] = get(cudaDevAttrMaxBlockDimZ);
        p.maxGridSize[0] = get(cudaDevAttrMaxGridDimX);
        p.maxGridSize[1] = get(cudaDevAttrMaxGridDimY);
        p.maxGridSize[2] = get(cudaDevAttrMaxGridDimZ);
        p.totalConstMem = get(cudaDevAttrTotalConstantMemory);
        p.major = get(cudaDevAttrComputeCapabilityMajor);
        p.minor = get(cudaDevAttrComputeCapabilityMinor);
        p.textureAlignment = get(cudaDevAttrTextureAlignment);
        p.texturePitchAlignment = get(cudaDevAttrTexturePitchAlignment);
        p.multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
        p.canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
        p.unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
        p.l2CacheSize = get(cudaDevAttrL2CacheSize);
        p.maxThreadsPerMultiProcessor = get(cudaDevAttrMaxThreadsPerMultiProcessor);
        p.streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported);
        p.globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported);
        p.localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported);
        p.sharedMemPerMultiprocessor = get(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
        p.regsPerMultiprocessor = get(cudaDevAttrMaxRegistersPerMultiprocessor);
        p.managedMemory = get(cudaDevAttrManagedMemory);
        p.hostNativeAtomicSupported = get(cudaDevAttrHostNativeAtomicSupported);
        p.canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem);
        p.sharedMemPerBlockOptin = get(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        p.maxBlocksPerMultiProcessor = get(cudaDevAttrMaxBlocksPerMultiprocessor);
        p.reservedSharedMemPerBlock = get(cudaDevAttrReservedSharedMemoryPerBlock);
        p.hostRegisterSupported = get(cudaDevAttrHostRegisterSupported);
        p.memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest)
{
    return api([=](Engine&) {
        if (least)
            *least = 0;
        if (greatest)
            *greatest = -5;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device)
{
    return api([=](Engine&) {
        if (device != 0)
            return cudaErrorInvalidDevice;
        if (!text || length < 13)
            return cudaErrorInvalidValue;
        std::snprintf(text, size_t(length), "0000:00:00.0");
        return cudaSuccess;
    });
}

// The stack of a thread and its heap are the host's, so the limits mean nothing.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t)
{
    return report_error(limit > cudaLimitPersistingL2CacheSize ? cudaErrorUnsupportedLimit
                                                               : cudaSuccess);
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit)
{
    return api([=](Engine&) {
        if (!value)
            return cudaErrorInvalidValue;
        switch (limit) {
        case cudaLimitStackSize:
            *value = stack_bytes;
            return cudaSuccess;
        case cudaLimitPrintfFifoSize:
            *value = 1 << 20;
            return cudaSuccess;
        case cudaLimitMallocHeapSize:
            *value = 8 << 20;
            return cudaSuccess;
        default:
            return cudaErrorUnsupportedLimit;
        }
    });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache)
{
    return report_error(cudaSuccess);
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config)
{
    return api([=](Engine&) {
        if (!config)
            return cudaErrorInvalidValue;
        *config = cudaFuncCachePreferNone;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer)
{
    return api([=](Engine&) {
        if (!can)
            return cudaErrorInvalidValue;
        if (device != 0 || peer != 0)
            return cudaErrorInvalidDevice;
        *can = 0;
        return cudaSuccess;
    });
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
    return report_error(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int)
{
    return report_error(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int* version)
{
    return cudaRuntimeGetVersion(version);
}

cudaError_t cudaRuntimeGetVersion(int* version)
{
    return api([=](Engine&) {
        if (!version)
            return cudaErrorInvalidValue;
        *version = 13000;
        return cudaSuccess;
    });
}

cudaError_t cudaProfilerStart()
{
    return report_error(cudaSuccess);
}

cudaError_t cudaProfilerStop()
{
    return report_error(cudaSuccess);
}
