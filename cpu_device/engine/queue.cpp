#include "engine.h"

namespace cpu_device {
namespace {

bool is_built_in(cudaStream_t stream)
{
    return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

}  // namespace

bool is_stream(const Engine& e, cudaStream_t stream)
{
    return is_built_in(stream) || e.queue.streams.count(stream);
}

cudaError_t enqueue(Engine& e, cudaStream_t stream, std::function<cudaError_t()> run)
{
    if (!is_stream(e, stream))
        return cudaErrorInvalidResourceHandle;
    if (!is_built_in(stream) && stream->graph) {
        stream->graph->operations.push_back({stream, std::move(run)});
        return cudaSuccess;
    }
    // The default stream would have to wait for the one that is being captured.
    if (is_built_in(stream) && e.queue.capture) {
        e.queue.capture->invalidated = true;
        return cudaErrorStreamCaptureImplicit;
    }
    e.queue.operations.push_back({stream, std::move(run)});
    return cudaSuccess;
}

cudaError_t drain(Engine& e)
{
    if (e.queue.operations.empty())
        return e.sticky;
    while (!e.queue.operations.empty()) {
        const Operation operation = std::move(e.queue.operations.front());
        e.queue.operations.pop_front();
        if (!e.sticky)
            e.sticky = operation.run();
    }
    e.memory.close_all();
    flush_prints();
    return e.sticky;
}

cudaError_t may_wait(Engine& e)
{
    if (!e.queue.capture)
        return cudaSuccess;
    e.queue.capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
}

}  // namespace cpu_device
