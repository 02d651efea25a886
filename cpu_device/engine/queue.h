// What the host has asked for and what has not been done yet.
//
// All streams share one queue, and it is worked off when the host waits for something. That is
// legal, for a GPU promises nothing earlier, and it shows where a program forgot to wait. The
// order is that of the calls, unless CPU_DEVICE_ORDER asks for another that streams and events
// allow; that shows where a stream forgot to wait for another.
#pragma once

#include "cpu_device/runtime_types.h"

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace cpu_device {

struct Operation {
    cudaStream_t stream;
    bool blocking;                         // the stream and the default stream wait for each other
    std::function<cudaError_t()> run;      // an error is the device's from then on
    std::function<bool()> may_run;         // empty: always
};

struct EventState {
    const bool timed;
    bool recorded = false;                 // or asked to be
    unsigned asked_for = 0, done = 0;      // records of it
    double milliseconds = 0;
    bool asked = false;                    // somebody has asked whether it is over, in vain
    cudaGraph_t graph = nullptr;           // recorded in a stream that is being captured
};

struct Queue {
    std::deque<Operation> operations;
    std::set<cudaStream_t> streams;
    std::set<cudaEvent_t> events;
    cudaGraph_t capture = nullptr;         // the graph that a stream is being captured to
    bool asked_default_stream = false;
};

}  // namespace cpu_device

struct CUstream_st {
    unsigned flags;
    int priority;
    bool asked = false;
    cudaGraph_t graph = nullptr;           // being captured to it
};

struct CUevent_st {
    std::shared_ptr<cpu_device::EventState> state;
};

struct CUgraph_st {
    cudaStream_t origin;
    bool invalidated = false;
    std::vector<cpu_device::Operation> operations;
};

struct CUgraphExec_st {
    std::vector<cpu_device::Operation> operations;
};

namespace cpu_device {

struct Engine;

// Puts an operation into the queue, or into the graph that the stream is being captured to.
cudaError_t enqueue(Engine& e, cudaStream_t stream, std::function<cudaError_t()> run,
                    std::function<bool()> may_run = {});

// Does all that is in the queue.
cudaError_t drain(Engine& e);

// An error when the host may not wait, for a stream is being captured.
cudaError_t may_wait(Engine& e);

bool is_stream(const Engine& e, cudaStream_t stream);

}  // namespace cpu_device
