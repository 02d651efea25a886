// The runtime API: streams, events and graphs.

#include "engine.h"
#include "sanitizers.h"
#include "settings.h"

#include "cpu_device/runtime_api.h"

#include <chrono>

using namespace cpu_device;

namespace {

double now_in_milliseconds()
{
    using Milliseconds = std::chrono::duration<double, std::milli>;
    return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_own(const Engine& e, cudaStream_t stream) { return e.queue.streams.count(stream); }

bool has_work(const Engine& e, cudaStream_t stream)
{
    for (const Operation& operation : e.queue.operations)
        if (operation.stream == stream || !is_own(e, stream))
            return true;
    return false;
}

bool is_pending(cudaEvent_t event) { return event->state->done != event->state->asked_for; }

// The first time, what is asked for is not ready; by the second time it is. A program that never
// asks twice has to be able to cope with the first answer, and one that asks in a loop must come
// to its end.
cudaError_t not_yet(Engine& e, bool& asked)
{
    if (asked)
        return drain(e);
    asked = true;
    return cudaErrorNotReady;
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority)
{
    return api([=](Engine& e) {
        if (!stream || flags > cudaStreamNonBlocking)
            return cudaErrorInvalidValue;
        *stream = new CUstream_st{flags, priority};
        e.queue.streams.insert(*stream);
        return cudaSuccess;
    });
}

// Its work stays in the queue, and nobody looks at the stream any more to do it.
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return api([=](Engine& e) {
        if (!is_own(e, stream))
            return cudaErrorInvalidResourceHandle;
        e.queue.streams.erase(stream);
        delete stream;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        const cudaError_t error = may_wait(e);
        return error ? error : drain(e);
    });
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        if (const cudaError_t error = may_wait(e))
            return error;
        bool& asked = is_own(e, stream) ? stream->asked : e.queue.asked_default_stream;
        if (has_work(e, stream))
            return not_yet(e, asked);
        asked = false;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream) || !e.queue.events.count(event))
            return cudaErrorInvalidResourceHandle;
        const std::shared_ptr<EventState> state = event->state;
        if (state->graph) {
            if (is_own(e, stream))
                stream->graph = state->graph;        // now it is being captured, too
            return cudaSuccess;
        }
        const unsigned records = state->asked_for;
        return enqueue(
            e, stream, [] { return cudaSuccess; }, [=] { return state->done >= records; });
    });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        if (!flags)
            return cudaErrorInvalidValue;
        *flags = is_own(e, stream) ? stream->flags : unsigned(cudaStreamDefault);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        if (!priority)
            return cudaErrorInvalidValue;
        *priority = is_own(e, stream) ? stream->priority : 0;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* memory, size_t, unsigned)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        const Buffer* const buffer = e.memory.find(memory);
        return buffer && buffer->kind == Kind::managed ? cudaSuccess : cudaErrorInvalidValue;
    });
}

// The host's function must not call the runtime; what it calls is told so.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument)
{
    return api([=](Engine& e) {
        if (!function)
            return cudaErrorInvalidValue;
        return enqueue(e, stream, [=, &e] {
            e.memory.close_all();
            in_host_function = true;
            function(argument);
            in_host_function = false;
            return cudaSuccess;
        });
    });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* argument, unsigned flags)
{
    return api([=](Engine& e) {
        if (!callback || flags != 0)
            return cudaErrorInvalidValue;
        return enqueue(e, stream, [=, &e] {
            e.memory.close_all();
            in_host_function = true;
            callback(stream, cudaSuccess, argument);
            in_host_function = false;
            return cudaSuccess;
        });
    });
}

cudaError_t cudaEventCreate(cudaEvent_t* event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags)
{
    return cudaEventCreateWithFlags(event, flags);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags)
{
    return api([=](Engine& e) {
        constexpr unsigned known =
            cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
        if (!event || (flags & ~known)
            || ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)))
            return cudaErrorInvalidValue;
        const bool timed = !(flags & cudaEventDisableTiming);
        *event = new CUevent_st{std::make_shared<EventState>(EventState{timed})};
        e.queue.events.insert(*event);
        return cudaSuccess;
    });
}

// A record of it that is still in the queue keeps its state.
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return api([=](Engine& e) {
        if (!e.queue.events.count(event))
            return cudaErrorInvalidResourceHandle;
        e.queue.events.erase(event);
        delete event;
        return cudaSuccess;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned)
{
    return api([=](Engine& e) {
        if (!e.queue.events.count(event) || !is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        const std::shared_ptr<EventState> state = event->state;
        const cudaGraph_t graph = is_own(e, stream) ? stream->graph : nullptr;
        state->graph = graph;
        if (!graph) {
            state->recorded = true;
            state->asked = false;
            ++state->asked_for;
        }
        return enqueue(e, stream, [state, graph] {
            state->milliseconds = now_in_milliseconds();
            if (graph)
                state->recorded = true;
            else
                ++state->done;
            return cudaSuccess;
        });
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return api([=](Engine& e) {
        if (!e.queue.events.count(event))
            return cudaErrorInvalidResourceHandle;
        const cudaError_t error = may_wait(e);
        return error ? error : drain(e);
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return api([=](Engine& e) {
        if (!e.queue.events.count(event))
            return cudaErrorInvalidResourceHandle;
        if (const cudaError_t error = may_wait(e))
            return error;
        return is_pending(event) ? not_yet(e, event->state->asked) : cudaSuccess;
    });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop)
{
    return api([=](Engine& e) {
        if (!milliseconds)
            return cudaErrorInvalidValue;
        for (const cudaEvent_t event : {start, stop})
            if (!e.queue.events.count(event) || !event->state->timed || !event->state->recorded)
                return cudaErrorInvalidResourceHandle;
        if (is_pending(start) || is_pending(stop))
            return cudaErrorNotReady;
        will_write(milliseconds, sizeof *milliseconds);
        *milliseconds = float(stop->state->milliseconds - start->state->milliseconds);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    return api([=](Engine& e) {
        if (!is_own(e, stream))
            return is_stream(e, stream) ? cudaErrorStreamCaptureUnsupported
                                        : cudaErrorInvalidResourceHandle;
        if (e.queue.capture)
            return cudaErrorIllegalState;
        stream->graph = e.queue.capture = new CUgraph_st{stream, false, {}};
        return cudaSuccess;
    });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph)
{
    return api([=](Engine& e) {
        if (!graph)
            return cudaErrorInvalidValue;
        if (!is_own(e, stream) || !stream->graph)
            return cudaErrorIllegalState;
        cudaGraph_t const made = stream->graph;
        if (made->origin != stream)
            return cudaErrorStreamCaptureUnmatched;
        for (const cudaStream_t other : e.queue.streams)
            other->graph = nullptr;
        for (const cudaEvent_t event : e.queue.events)
            event->state->graph = nullptr;
        e.queue.capture = nullptr;
        if (made->invalidated) {
            delete made;
            *graph = nullptr;
            return cudaErrorStreamCaptureInvalidated;
        }
        *graph = made;
        return cudaSuccess;
    });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status)
{
    return api([=](Engine& e) {
        if (!is_stream(e, stream))
            return cudaErrorInvalidResourceHandle;
        if (!status)
            return cudaErrorInvalidValue;
        const cudaGraph_t graph = is_own(e, stream) ? stream->graph : nullptr;
        *status = !graph               ? cudaStreamCaptureStatusNone
                  : graph->invalidated ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long)
{
    return api([=](Engine&) {
        if (!executable || !graph)
            return cudaErrorInvalidValue;
        *executable = new CUgraphExec_st{graph->operations};
        return cudaSuccess;
    });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 cudaGraphNode_t*, char*, size_t)
{
    return cudaGraphInstantiate(executable, graph, 0ull);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    return api([=](Engine& e) {
        if (!executable)
            return cudaErrorInvalidValue;
        for (const Operation& operation : executable->operations)
            if (const cudaError_t error = enqueue(e, stream, operation.run))
                return error;
        return settings().blocking && !e.queue.capture ? drain(e) : cudaSuccess;
    });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t)
{
    return report_error(executable ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    return api([=](Engine&) {
        if (!executable)
            return cudaErrorInvalidValue;
        delete executable;
        return cudaSuccess;
    });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return api([=](Engine&) {
        if (!graph)
            return cudaErrorInvalidValue;
        delete graph;
        return cudaSuccess;
    });
}
