// A worker runs blocks, one at a time, and all threads of a block on one thread of the operating
// system.
#pragma once

#include "fibers.h"
#include "sanitizers.h"

#include "cpu_device/engine.h"

#include <cstdint>

namespace cpu_device {

constexpr unsigned max_threads = 1024;     // in a block
constexpr unsigned warp_size = 32;
constexpr unsigned max_warps = max_threads / warp_size;
constexpr unsigned max_fibers = tsan ? 2 * max_threads : max_threads;
constexpr unsigned nobody = ~0u;

// The lanes of a warp meet: each brings 64 bits and goes on when all of `mask` have come. It may
// read what the others brought until it meets anybody again or ends.
struct Meeting {
    uint64_t values[warp_size];
    unsigned mask;
    unsigned arrived;
    unsigned readers;                      // how many still may read
    unsigned line;
    const char* operation;
    char order_token;                      // for ThreadSanitizer
};

struct Warp {
    static constexpr unsigned max_meetings = warp_size + 1; // a lane holds on to one at most

    unsigned live;                         // lanes that have not returned
    uint64_t pending, idle;                // which of the meetings lanes wait in, and nobody reads
    Meeting meetings[max_meetings];
};

struct Thread {
    Fiber* fiber;                          // where it waits
    Meeting* meeting;                      // the last it took part in
    const char* waits_at;                  // null: it does not wait
    unsigned line;
    unsigned mask;                         // of the lanes that it waits for, or is with
};

inline constexpr char converging_name[] = "__activemask()";

// Asynchronous copies that a thread has begun, in batches
struct PendingCopy {
    void* to;
    const void* from;
    size_t bytes, zeros;
    size_t batch;
};

struct CopyQueue {
    PendingCopy* copies = nullptr;
    unsigned count = 0, capacity = 0;
    size_t batches = 0;                    // committed
};

// Thread numbers, first in, first out. None is in it twice.
class ThreadQueue {
public:
    bool empty() const { return head == tail; }
    unsigned size() const { return tail - head; }
    void clear() { head = tail = 0; }
    void push(unsigned thread) { items[tail++ % max_threads] = thread; }
    unsigned pop() { return items[head++ % max_threads]; }
    unsigned& operator[](unsigned i) { return items[(head + i) % max_threads]; }

private:
    unsigned items[max_threads];
    unsigned head = 0, tail = 0;
};

// A launch while it runs, as all workers see it.
struct Run {
    Launch* launch = nullptr;
    unsigned long long blocks = 0;
    unsigned long long next = 0;           // how many have been taken
    unsigned long long first = 0;          // random order: the n-th is first + n * stride
    unsigned long long stride = 1;
    int error = cudaSuccess;
    bool noted_early_return = false;       // reported once
    bool noted_two_barriers = false;
};

struct Worker {
    Run* run = nullptr;
    Launch* launch = nullptr;
    bool in_kernel = false;                // a CUDA thread is what now runs
    cudaError_t error = cudaSuccess;       // how the block ended

    // The block that it runs
    unsigned long long block = 0;
    unsigned long long serial = 1;         // of all blocks that it has run
    unsigned threads = 0;
    unsigned started = 0;
    unsigned live = 0;                     // have not returned
    unsigned current = nobody;
    unsigned order[max_threads];           // in which the threads start
    uint3 index[max_threads];              // threadIdx of each
    Thread thread[max_threads];
    ThreadQueue ready;                     // can go on
    ThreadQueue yielded;                   // can go on, but had better let others go first
    ThreadQueue converging;                // want to know who is with them

    // __syncthreads
    ThreadQueue at_barrier;
    unsigned arrived = 0;
    unsigned barrier_line = 0;
    unsigned phase = 0;
    unsigned votes[2];
    unsigned voters[2];
    char barrier_tokens[2];                // for ThreadSanitizer, as these two
    char start_token, end_token;

    Warp* warp;                            // max_warps of them

    char* shared = nullptr;                // dynamic shared memory
    size_t shared_bytes = 0;

    CopyQueue copies[max_threads];
    bool copies_begun = false;             // in this block

    // Stacks
    Fiber home;                            // the operating system's thread
    Fiber* fiber = nullptr;                // the one that runs
    bool fresh = false;                    // it has not started a thread yet
    Fiber* fibers[max_fibers] = {};
    unsigned fiber_count = 0;
    Fiber* idle[max_fibers];               // not used under ThreadSanitizer
    unsigned idle_count = 0;

    uint64_t random = 0;
    unsigned polls = 0;
};

// The worker of the calling thread of the operating system, if it is running a block.
extern thread_local Worker* worker;

inline bool in_kernel() { return worker->in_kernel; }

// True for one caller of all.
inline bool is_first(bool& done) { return !__atomic_test_and_set(&done, __ATOMIC_RELAXED); }

Worker* make_worker();

// Called on the worker's own thread: before the blocks of a launch, for each, and after.
void begin_launch(Worker& w, Run& run);
void run_block(Worker& w, unsigned long long block);
void end_launch(Worker& w);

// Leaves the kernel: the block ends with this error.
[[noreturn]] void leave_kernel(cudaError_t error);

// The same, after a line that says who it was and what it did.
[[noreturn]] void fail_kernel(cudaError_t error, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// Called by the running thread, after putting itself where somebody will find it.
void wait();

// Makes a thread ready that waits.
void wake(Worker& w, unsigned thread);

// Warps: made ready for a block, and left by a thread that returns.
void begin_warps(Worker& w);
void leave_warp(Worker& w, unsigned thread);

// Lets those go on that asked who is with them: nobody else can come.
void release_converging(Worker& w);

uint64_t next_random(uint64_t& state);

}  // namespace cpu_device
