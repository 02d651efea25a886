#include "engine.h"
#include "print.h"
#include "settings.h"

#include <algorithm>

namespace cpu_device {
namespace {

bool is_built_in(cudaStream_t stream)
{
    return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

bool waits_for(const Operation& later, const Operation& earlier)
{
    if (later.stream == earlier.stream)
        return true;
    return (is_built_in(later.stream) && earlier.blocking)
           || (is_built_in(earlier.stream) && later.blocking);
}

// Which operation is next? The first can always run: an event that it waits for was recorded
// before. Others can where nothing before them is in their way.
std::deque<Operation>::iterator choose(Queue& queue)
{
    constexpr size_t farthest = 64;
    auto& operations = queue.operations;
    if (settings().order == Order::forward)
        return operations.begin();
    const auto end = operations.begin() + std::min(farthest, operations.size());
    std::vector<std::deque<Operation>::iterator> possible;
    for (auto one = operations.begin(); one != end; ++one) {
        const auto is_in_the_way = [&](const Operation& other) { return waits_for(*one, other); };
        if (std::none_of(operations.begin(), one, is_in_the_way)
            && (!one->may_run || one->may_run()))
            possible.push_back(one);
    }
    if (settings().order == Order::reverse)
        return possible.back();
    static uint64_t random = settings().seed;
    return possible[next_random(random) % possible.size()];
}

}  // namespace

bool is_stream(const Engine& e, cudaStream_t stream)
{
    return is_built_in(stream) || e.queue.streams.count(stream);
}

cudaError_t enqueue(Engine& e, cudaStream_t stream, std::function<cudaError_t()> run,
                    std::function<bool()> may_run)
{
    if (!is_stream(e, stream))
        return cudaErrorInvalidResourceHandle;
    const bool blocking = is_built_in(stream) || !(stream->flags & cudaStreamNonBlocking);
    Operation operation{stream, blocking, std::move(run), std::move(may_run)};
    if (!is_built_in(stream) && stream->graph) {
        stream->graph->operations.push_back(std::move(operation));
        return cudaSuccess;
    }
    // The default stream would have to wait for the one that is being captured.
    if (is_built_in(stream) && e.queue.capture) {
        e.queue.capture->invalidated = true;
        return cudaErrorStreamCaptureImplicit;
    }
    e.queue.operations.push_back(std::move(operation));
    return cudaSuccess;
}

cudaError_t drain(Engine& e)
{
    if (e.queue.operations.empty())
        return e.sticky;
    while (!e.queue.operations.empty()) {
        const auto chosen = choose(e.queue);
        const Operation operation = std::move(*chosen);
        e.queue.operations.erase(chosen);
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
