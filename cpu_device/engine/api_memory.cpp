// The runtime API: getting memory and giving it back.

#include "engine.h"
#include "sanitizers.h"

#include "cpu_device/runtime_api.h"

using namespace cpu_device;

namespace {

cudaError_t allocate(Engine& e, void** memory, size_t bytes, Kind kind)
{
    if (!memory)
        return cudaErrorInvalidValue;
    will_write(memory, sizeof *memory);
    if (bytes == 0) {
        *memory = nullptr;
        return cudaSuccess;
    }
    const Buffer* const buffer = e.memory.allocate(bytes, kind);
    *memory = buffer ? buffer->start : nullptr;
    return buffer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t give_back(Engine& e, void* memory, bool pinned)
{
    if (const cudaError_t error = may_wait(e))
        return error;
    if (const cudaError_t error = drain(e))
        return error;
    if (!memory)
        return cudaSuccess;
    Buffer* const buffer = e.memory.starting_at(memory);
    const auto is_right = [&] {
        return pinned ? buffer->kind == Kind::pinned
                      : buffer->kind == Kind::device || buffer->kind == Kind::managed;
    };
    if (!buffer || !is_right())
        return cudaErrorInvalidValue;
    e.memory.free(*buffer);
    return cudaSuccess;
}

constexpr size_t pitch_unit = 512;

bool pitch_of(size_t width, size_t rows, size_t& pitch)
{
    pitch = (width + pitch_unit - 1) / pitch_unit * pitch_unit;
    size_t bytes;
    return pitch >= width && !__builtin_mul_overflow(pitch, rows, &bytes);
}

cudaError_t allocate_rows(Engine& e, void** memory, size_t* pitch, size_t width, size_t rows)
{
    if (!memory || !pitch)
        return cudaErrorInvalidValue;
    if (!pitch_of(width, rows, *pitch))
        return cudaErrorMemoryAllocation;
    return allocate(e, memory, *pitch * rows, Kind::device);
}

}  // namespace

cudaError_t cudaMalloc(void** memory, size_t bytes)
{
    return api([=](Engine& e) { return allocate(e, memory, bytes, Kind::device); });
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream)
{
    return api([=](Engine& e) {
        return is_stream(e, stream) ? allocate(e, memory, bytes, Kind::device)
                                    : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t cudaMallocPitch(void** memory, size_t* pitch, size_t width, size_t height)
{
    return api([=](Engine& e) { return allocate_rows(e, memory, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent)
{
    return api([=](Engine& e) {
        size_t rows;
        if (!memory)
            return cudaErrorInvalidValue;
        if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
            return cudaErrorMemoryAllocation;
        memory->xsize = extent.width;
        memory->ysize = extent.height;
        return allocate_rows(e, &memory->ptr, &memory->pitch, extent.width, rows);
    });
}

cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned flags)
{
    return api([=](Engine& e) {
        if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
            return cudaErrorInvalidValue;
        return allocate(e, memory, bytes, Kind::managed);
    });
}

cudaError_t cudaMallocHost(void** memory, size_t bytes, unsigned flags)
{
    return cudaHostAlloc(memory, bytes, flags);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags)
{
    return api([=](Engine& e) {
        if (flags > (cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
            return cudaErrorInvalidValue;
        return allocate(e, memory, bytes, Kind::pinned);
    });
}

cudaError_t cudaFree(void* memory)
{
    return api([=](Engine& e) { return give_back(e, memory, false); });
}

cudaError_t cudaFreeHost(void* memory)
{
    return api([=](Engine& e) { return give_back(e, memory, true); });
}

// In the order of the stream: what was put into it before may still use the memory.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream)
{
    return api([=](Engine& e) {
        const Buffer* const buffer = memory ? e.memory.starting_at(memory) : nullptr;
        if (!buffer || buffer->kind != Kind::device)
            return cudaErrorInvalidValue;
        return enqueue(e, stream, [&e, memory] {
            Buffer* const still_there = e.memory.starting_at(memory);
            if (!still_there)
                return cudaErrorInvalidValue;
            e.memory.free(*still_there);
            return cudaSuccess;
        });
    });
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned)
{
    return api([=](Engine& e) {
        if (!memory || !bytes)
            return cudaErrorInvalidValue;
        if (e.memory.overlapping(memory, bytes))
            return cudaErrorHostMemoryAlreadyRegistered;
        e.memory.add(memory, bytes, Kind::registered);
        return cudaSuccess;
    });
}

cudaError_t cudaHostUnregister(void* memory)
{
    return api([=](Engine& e) {
        if (!memory)
            return cudaErrorInvalidValue;
        if (const cudaError_t error = drain(e))
            return error;
        Buffer* const buffer = e.memory.starting_at(memory);
        if (!buffer || buffer->kind != Kind::registered)
            return cudaErrorHostMemoryNotRegistered;
        e.memory.free(*buffer);
        return cudaSuccess;
    });
}

cudaError_t cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned flags)
{
    return api([=](Engine& e) {
        const Buffer* const buffer = e.memory.find(on_host);
        if (!on_device || flags != 0 || !buffer || buffer->kind == Kind::device)
            return cudaErrorInvalidValue;
        *on_device = on_host;
        return cudaSuccess;
    });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* memory)
{
    return api([=](Engine& e) {
        const Buffer* const buffer = e.memory.find(memory);
        if (!flags || !buffer || (buffer->kind != Kind::pinned && buffer->kind != Kind::registered))
            return cudaErrorInvalidValue;
        *flags = cudaHostAllocMapped;
        return cudaSuccess;
    });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total)
{
    return api([=](Engine& e) {
        if (!free || !total)
            return cudaErrorInvalidValue;
        *free = e.memory.free_bytes();
        *total = e.memory.total_bytes();
        return cudaSuccess;
    });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer)
{
    return api([=](Engine& e) {
        if (!attributes)
            return cudaErrorInvalidValue;
        void* const address = const_cast<void*>(pointer);
        const Buffer* const buffer = e.memory.find(pointer);
        if (!buffer) {
            *attributes = {cudaMemoryTypeUnregistered, cudaInvalidDeviceId, nullptr, address};
            return cudaSuccess;
        }
        switch (buffer->kind) {
        case Kind::device:
        case Kind::symbol:
            *attributes = {cudaMemoryTypeDevice, 0, address, nullptr};
            break;
        case Kind::managed:
        case Kind::managed_variable:
            *attributes = {cudaMemoryTypeManaged, 0, address, address};
            break;
        case Kind::pinned:
        case Kind::registered:
            *attributes = {cudaMemoryTypeHost, 0, address, address};
            break;
        }
        return cudaSuccess;
    });
}

namespace {

// Host and device share their memory, so there is nowhere to move it.
cudaError_t managed_hint(const void* memory, size_t bytes)
{
    return api([=](Engine& e) {
        const Buffer* const buffer = e.memory.find(memory);
        const bool inside = buffer && buffer->kind == Kind::managed && bytes
                            && bytes <= size_t(buffer->start + buffer->bytes
                                               - static_cast<const char*>(memory));
        return inside ? cudaSuccess : cudaErrorInvalidValue;
    });
}

}  // namespace

cudaError_t cudaMemPrefetchAsync(const void* memory, size_t bytes, int, cudaStream_t)
{
    return managed_hint(memory, bytes);
}

cudaError_t cudaMemPrefetchAsync(const void* memory, size_t bytes, cudaMemLocation, unsigned,
                                 cudaStream_t)
{
    return managed_hint(memory, bytes);
}

cudaError_t cudaMemAdvise(const void* memory, size_t bytes, cudaMemoryAdvise, int)
{
    return managed_hint(memory, bytes);
}

cudaError_t cudaMemAdvise(const void* memory, size_t bytes, cudaMemoryAdvise, cudaMemLocation)
{
    return managed_hint(memory, bytes);
}
