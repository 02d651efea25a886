// The runtime API: copying and setting memory.

#include "engine.h"
#include "settings.h"

#include "cpu_device/runtime_api.h"

#include <cstring>

using namespace cpu_device;

namespace {

// `rows` rows of `width` bytes, each `pitch` bytes after the one before.
struct Rows {
    char* start;
    size_t pitch;

    // From the first byte to the last
    static size_t span(size_t pitch, size_t width, size_t rows)
    {
        return rows ? (rows - 1) * pitch + width : 0;
    }
};

bool is_device(const Buffer* buffer)
{
    return buffer && (buffer->kind == Kind::device || buffer->kind == Kind::symbol);
}

bool is_pageable(const Buffer* buffer) { return !buffer; }

// May a copy go from or to these bytes, if it says that they lie on the device, or on the host?
// What is said to be the host's may be the device's, but not the other way round.
bool is_right(const Buffer* buffer, const char* start, size_t bytes, bool on_device)
{
    return buffer ? bytes <= size_t(buffer->start + buffer->bytes - start) : !on_device;
}

void open_for_copy(Engine& e, const char* address)
{
    if (Buffer* const buffer = e.memory.find(address))
        e.memory.open(*buffer);
}

struct Copy {
    Rows to, from;
    size_t width, rows;
    cudaMemcpyKind kind;
    cudaStream_t stream;
    bool async;
};

void do_copy(const Copy& copy)
{
    for (size_t row = 0; row < copy.rows; ++row)
        std::memmove(copy.to.start + row * copy.to.pitch, copy.from.start + row * copy.from.pitch,
                     copy.width);
}

cudaError_t make_copy(Engine& e, const Copy& copy)
{
    if (copy.kind < cudaMemcpyHostToHost || copy.kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (!copy.width || !copy.rows)
        return cudaSuccess;
    if (!copy.to.start || !copy.from.start)
        return cudaErrorInvalidValue;
    if (copy.rows > 1 && (copy.width > copy.to.pitch || copy.width > copy.from.pitch))
        return cudaErrorInvalidPitchValue;

    const Buffer* const to = e.memory.find(copy.to.start);
    const Buffer* const from = e.memory.find(copy.from.start);
    const bool to_device = copy.kind == cudaMemcpyHostToDevice
                           || copy.kind == cudaMemcpyDeviceToDevice;
    const bool from_device = copy.kind == cudaMemcpyDeviceToHost
                             || copy.kind == cudaMemcpyDeviceToDevice;
    if (!is_right(to, copy.to.start, Rows::span(copy.to.pitch, copy.width, copy.rows), to_device)
        || !is_right(from, copy.from.start, Rows::span(copy.from.pitch, copy.width, copy.rows),
                     from_device))
        return cudaErrorInvalidValue;

    // Memory that is not pinned is copied before the call returns, and so is all that does not go
    // from device to device and does not say Async.
    const bool waits = is_pageable(to) || is_pageable(from)
                       || (!copy.async && !(is_device(to) && is_device(from)));
    const bool captured = e.queue.capture && copy.stream && copy.stream->graph;
    if (waits && !captured)
        if (const cudaError_t error = may_wait(e))
            return error;
    const cudaError_t error = enqueue(e, copy.stream, [&e, copy] {
        open_for_copy(e, copy.to.start);
        open_for_copy(e, copy.from.start);
        do_copy(copy);
        return cudaSuccess;
    });
    if (error != cudaSuccess || captured)
        return error;
    return waits || settings().blocking ? drain(e) : cudaSuccess;
}

cudaError_t copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                 size_t rows, cudaMemcpyKind kind, cudaStream_t stream, bool async)
{
    return api([=](Engine& e) {
        return make_copy(e, {{static_cast<char*>(to), to_pitch},
                             {const_cast<char*>(static_cast<const char*>(from)), from_pitch},
                             width,
                             rows,
                             kind,
                             stream,
                             async});
    });
}

cudaError_t set(void* memory, size_t pitch, int value, size_t width, size_t rows,
                cudaStream_t stream)
{
    return api([=](Engine& e) {
        if (!width || !rows)
            return cudaSuccess;
        char* const start = static_cast<char*>(memory);
        const Buffer* const buffer = e.memory.find(memory);
        if (rows > 1 && width > pitch)
            return cudaErrorInvalidPitchValue;
        if (!is_right(buffer, start, Rows::span(pitch, width, rows), true))
            return cudaErrorInvalidValue;
        return enqueue(e, stream, [=, &e] {
            open_for_copy(e, start);
            for (size_t row = 0; row < rows; ++row)
                std::memset(start + row * pitch, value, width);
            return cudaSuccess;
        });
    });
}

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind)
{
    return copy(to, 0, from, 0, bytes, 1, kind, nullptr, false);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, 0, from, 0, bytes, 1, kind, stream, true);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind)
{
    return copy(to, to_pitch, from, from_pitch, width, height, kind, nullptr, false);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    return copy(to, to_pitch, from, from_pitch, width, height, kind, stream, true);
}

namespace {

// A slice at a time
cudaError_t copy_3d(const cudaMemcpy3DParms* p, cudaStream_t stream, bool async)
{
    if (!p || p->srcArray || p->dstArray)  // arrays are for textures
        return report_error(p ? cudaErrorNotSupported : cudaErrorInvalidValue);
    const auto at = [](const cudaPitchedPtr& memory, const cudaPos& pos, size_t slice) {
        return static_cast<char*>(memory.ptr) + pos.x
               + ((pos.z + slice) * memory.ysize + pos.y) * memory.pitch;
    };
    cudaError_t error = cudaSuccess;
    for (size_t slice = 0; slice < p->extent.depth && error == cudaSuccess; ++slice)
        error = copy(at(p->dstPtr, p->dstPos, slice), p->dstPtr.pitch,
                     at(p->srcPtr, p->srcPos, slice), p->srcPtr.pitch, p->extent.width,
                     p->extent.height, p->kind, stream, async);
    return error;
}

}  // namespace

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters)
{
    return copy_3d(parameters, nullptr, false);
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream)
{
    return copy_3d(parameters, stream, true);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           size_t bytes)
{
    if (to_device != 0 || from_device != 0)
        return report_error(cudaErrorInvalidDevice);
    return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    if (to_device != 0 || from_device != 0)
        return report_error(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemset(void* memory, int value, size_t bytes)
{
    return set(memory, 0, value, bytes, 1, nullptr);
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream)
{
    return set(memory, 0, value, bytes, 1, stream);
}

cudaError_t cudaMemset2D(void* memory, size_t pitch, int value, size_t width, size_t height)
{
    return set(memory, pitch, value, width, height, nullptr);
}

cudaError_t cudaMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    return set(memory, pitch, value, width, height, stream);
}

cudaError_t cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent)
{
    cudaError_t error = cudaSuccess;
    for (size_t slice = 0; slice < extent.depth && error == cudaSuccess; ++slice)
        error = set(static_cast<char*>(memory.ptr) + slice * memory.ysize * memory.pitch,
                    memory.pitch, value, extent.width, extent.height, nullptr);
    return error;
}

// __device__ and __constant__ variables are ordinary variables, known from the first time that the
// host speaks of them.

namespace cpu_device {
namespace {

cudaError_t note_symbol(const void* symbol, size_t bytes)
{
    return api([=](Engine& e) {
        if (!e.memory.find(symbol))
            e.memory.add(const_cast<void*>(symbol), bytes, Kind::symbol);
        return cudaSuccess;
    });
}

bool past_end(size_t symbol_bytes, size_t bytes, size_t offset)
{
    return offset > symbol_bytes || bytes > symbol_bytes - offset;
}

}  // namespace

cudaError_t copy_to_symbol(void* symbol, size_t symbol_bytes, const void* from, size_t bytes,
                           size_t offset, cudaMemcpyKind kind, bool async, cudaStream_t stream)
{
    if (past_end(symbol_bytes, bytes, offset))
        return report_error(cudaErrorInvalidValue);
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice
        && kind != cudaMemcpyDefault)
        return report_error(cudaErrorInvalidMemcpyDirection);
    if (const cudaError_t error = note_symbol(symbol, symbol_bytes))
        return error;
    return copy(static_cast<char*>(symbol) + offset, 0, from, 0, bytes, 1, kind, stream, async);
}

cudaError_t copy_from_symbol(void* to, const void* symbol, size_t symbol_bytes, size_t bytes,
                             size_t offset, cudaMemcpyKind kind, bool async, cudaStream_t stream)
{
    if (past_end(symbol_bytes, bytes, offset))
        return report_error(cudaErrorInvalidValue);
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice
        && kind != cudaMemcpyDefault)
        return report_error(cudaErrorInvalidMemcpyDirection);
    if (const cudaError_t error = note_symbol(symbol, symbol_bytes))
        return error;
    return copy(to, 0, static_cast<const char*>(symbol) + offset, 0, bytes, 1, kind, stream, async);
}

cudaError_t symbol_address(void** address, const void* symbol, size_t symbol_bytes)
{
    if (!address)
        return report_error(cudaErrorInvalidValue);
    *address = const_cast<void*>(symbol);
    return note_symbol(symbol, symbol_bytes);
}

}  // namespace cpu_device
