// How the threads of a block take turns.
//
// They run one after another, as plain calls on one stack, until one has to wait: at a barrier, or
// for other lanes of its warp. Its stack is then left as it is, and the next thread starts on
// another. So a kernel that never waits costs a loop, and nobody has to find out beforehand which
// kernels wait.

#include "worker.h"

#include "report.h"
#include "sanitizers.h"
#include "settings.h"
#include "shared_memory.h"

#include "cpu_device/language.h"
#include "cpu_device/synchronization.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace cpu_device {
namespace {

// The worker of a thread that runs no block. It also keeps the pointer from being zero, for the
// reason that language.h gives.
Worker no_worker;

// Each CUDA thread has a fiber of its own under ThreadSanitizer, which knows threads by their
// fibers. The assignment moves from block to block, so that thread 5 of one block and thread 5 of
// the next are two threads to it, and a race between them is seen.
unsigned own_fiber(const Worker& w, unsigned thread)
{
    constexpr unsigned step = 67;
    const unsigned fibers = w.threads + max_fibers - max_threads;
    return unsigned((thread + w.block * step) % fibers);
}

// ThreadSanitizer tells 256 threads apart at a time. With more it forgets what the first did, so
// beyond 199 two CUDA threads are one to it, and it misses races between just these two.
[[maybe_unused]] constexpr unsigned identities = 199;

void identify(Worker& w, unsigned number)
{
#ifdef CPU_DEVICE_TSAN
    w.fibers[number]->tsan_fiber = number < identities
                                       ? __tsan_create_fiber(0)
                                       : w.fibers[number % identities]->tsan_fiber;
#else
    (void)w;
    (void)number;
#endif
}

Fiber* add_fiber(Worker& w)
{
    Fiber* const fiber = new Fiber;
    if (!create(*fiber, w.fiber_count))
        die("no memory for the stacks of %u CUDA threads", w.fiber_count + 1);
    w.fibers[w.fiber_count++] = fiber;
    identify(w, w.fiber_count - 1);
    return fiber;
}

Fiber* fresh_fiber(Worker& w)
{
    if (tsan)
        return w.fibers[own_fiber(w, w.order[w.started])];
    return w.idle_count ? w.idle[--w.idle_count] : add_fiber(w);
}

// ThreadSanitizer remembers for each thread which functions it is in.
void identify_again(Worker& w)
{
#ifdef CPU_DEVICE_TSAN
    for (unsigned i = 0; i < w.fiber_count && i < identities; ++i)
        __tsan_destroy_fiber(w.fibers[i]->tsan_fiber);
#endif
    for (unsigned i = 0; i < w.fiber_count; ++i)
        identify(w, i);
}

// After an error the fibers stand where it found them.
void restart_all(Worker& w)
{
    w.idle_count = 0;
    for (unsigned i = 0; i < w.fiber_count; ++i) {
        restart(*w.fibers[i]);
        w.idle[w.idle_count++] = w.fibers[i];
    }
    identify_again(w);
}

void make_current(Worker& w, unsigned thread)
{
    w.current = thread;
    threadIdx = w.index[thread];
}

// Who runs next, when the running thread cannot go on or has ended.
Fiber& choose(Worker& w)
{
    if (w.started < w.threads) {
        w.fiber = fresh_fiber(w);
        return *w.fiber;
    }
    if (w.ready.empty() && !w.converging.empty())
        release_converging(w);
    ThreadQueue& queue = w.ready.empty() ? w.yielded : w.ready;
    if (queue.empty())                     // the block is over, or stuck
        return w.home;
    make_current(w, queue.pop());
    w.fiber = w.thread[w.current].fiber;
    return *w.fiber;
}

void switch_away(Worker& w, Fiber& from)
{
    Fiber& to = choose(w);
    if (&to != &from)
        switch_fibers(from, to);
}

void shuffle(Worker& w, ThreadQueue& queue)
{
    for (unsigned i = queue.size(); i > 1; --i) {
        unsigned &a = queue[i - 1], &b = queue[unsigned(next_random(w.random) % i)];
        const unsigned other = a;
        a = b;
        b = other;
    }
}

void open_barrier(Worker& w)
{
    if (w.arrived < w.threads && !w.run->noted_early_return) {
        w.run->noted_early_return = true;
        report_early_return(w);
    }
    const Order order = settings().order;
    if (order == Order::random)
        shuffle(w, w.at_barrier);
    const unsigned waiting = w.at_barrier.size();
    for (unsigned i = 0; i < waiting; ++i)
        wake(w, w.at_barrier[order == Order::reverse ? waiting - 1 - i : i]);
    w.at_barrier.clear();
    w.voters[w.phase] = w.arrived;
    w.arrived = 0;
    w.phase ^= 1;
    w.votes[w.phase] = 0;
}

void end_thread(Worker& w)
{
    Thread& me = w.thread[w.current];
    me.finished = true;
    --w.live;
    release(&w.end_token);
    leave_warp(w, w.current);
    if (w.arrived && w.arrived == w.live)
        open_barrier(w);
}

void set_order(Worker& w)
{
    const Order order = settings().order;
    for (unsigned i = 0; i < w.threads; ++i)
        w.order[i] = order == Order::reverse ? w.threads - 1 - i : i;
}

}  // namespace

thread_local Worker* worker = &no_worker;

uint64_t next_random(uint64_t& state)      // splitmix64
{
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

bool next_thread()
{
    Worker& w = *worker;
    if (w.current != nobody)
        end_thread(w);
    w.current = nobody;
    if (w.started == w.threads || (tsan && !w.fresh))
        return false;
    w.fresh = false;
    make_current(w, w.order[w.started++]);
    return true;
}

void run_fiber()
{
    Worker& w = *worker;
    w.current = nobody;
    w.fresh = true;
    acquire(&w.start_token);
    w.launch->run_threads();
    Fiber& mine = *w.fiber;
    if (!tsan)
        w.idle[w.idle_count++] = &mine;
    switch_away(w, mine);
}

void wait()
{
    Worker& w = *worker;
    Fiber& mine = *w.fiber;
    w.thread[w.current].fiber = &mine;
    switch_away(w, mine);
}

void wake(Worker& w, unsigned thread)
{
    w.thread[thread].waits_at = nullptr;
    w.ready.push(thread);
}

// Says how many of the threads that have arrived voted yes.
BarrierVotes block_barrier(bool vote, const char* name, unsigned line)
{
    Worker& w = *worker;
    const unsigned phase = w.phase;
    if (w.arrived == 0)
        w.barrier_line = line;
    else if (w.barrier_line != line && !w.run->noted_two_barriers) {
        w.run->noted_two_barriers = true;
        report_two_barriers(w, line);
    }
    w.votes[phase] += vote;
    release(&w.barrier_tokens[phase]);
    if (++w.arrived == w.live) {
        open_barrier(w);
    } else {
        Thread& me = w.thread[w.current];
        me.waits_at = name;
        me.line = line;
        w.at_barrier.push(w.current);
        wait();
    }
    acquire(&w.barrier_tokens[phase]);
    return {w.votes[phase], w.voters[phase]};
}

void yield()
{
    Worker& w = *worker;
    if (!w.in_kernel || w.live < 2)
        return;
    w.yielded.push(w.current);
    wait();
}

void polled()
{
    constexpr unsigned patience = 16;
    if (++worker->polls % patience == 0)
        yield();
}

void leave_kernel(cudaError_t error)
{
    Worker& w = *worker;
    w.error = error;
    leave_for(w.home);
}

Worker* make_worker()
{
    Worker* const w = new Worker;
    w->warp = static_cast<Warp*>(std::calloc(max_warps, sizeof(Warp)));
    return w;
}

void begin_launch(Worker& w, Run& run)
{
    Launch& launch = *run.launch;
    worker = &w;
    w.run = &run;
    w.launch = &launch;
    const dim3 b = launch.block;
    w.threads = b.x * b.y * b.z;
    unsigned i = 0;
    for (unsigned z = 0; z < b.z; ++z)
        for (unsigned y = 0; y < b.y; ++y)
            for (unsigned x = 0; x < b.x; ++x)
                w.index[i++] = {x, y, z};
    set_order(w);
    w.home.stack = nullptr;
    if (tsan)
        while (w.fiber_count < w.threads + max_fibers - max_threads)
            add_fiber(w);
}

void run_block(Worker& w, unsigned long long block)
{
    const dim3 grid = w.launch->grid;
    worker = &w;
    w.block = block;
    blockDim = w.launch->block;
    gridDim = grid;
    blockIdx = {unsigned(block % grid.x), unsigned(block / grid.x % grid.y),
                unsigned(block / grid.x / grid.y)};

    w.error = cudaSuccess;
    w.started = 0;
    w.live = w.threads;
    w.arrived = 0;
    w.phase = 0;
    w.votes[0] = 0;
    for (ThreadQueue* queue : {&w.ready, &w.yielded, &w.converging, &w.at_barrier})
        queue->clear();
    std::memset(w.thread, 0, w.threads * sizeof w.thread[0]);
    begin_warps(w);
    if (w.copies_begun)
        for (CopyQueue& queue : w.copies)
            queue.count = queue.batches = 0;
    w.copies_begun = false;
    if (settings().order == Order::random) {
        w.random = settings().seed + block;
        for (unsigned i = w.threads; i > 1; --i) {
            unsigned &a = w.order[i - 1], &b = w.order[next_random(w.random) % i];
            const unsigned other = a;
            a = b;
            b = other;
        }
    }
    open_shared_memory(w);
    release(&w.start_token);
#ifdef CPU_DEVICE_TSAN
    w.home.tsan_fiber = __tsan_get_current_fiber();
#endif

    w.in_kernel = true;
    w.fiber = fresh_fiber(w);
    switch_fibers(w.home, *w.fiber);
    w.in_kernel = false;

    if (w.error == cudaSuccess && w.live)
        w.error = report_stuck(w);
    if (w.error != cudaSuccess)
        restart_all(w);
    close_shared_memory(w);
}

void end_launch(Worker& w)
{
    acquire(&w.end_token);
    free_shared_memory(w);
    w.launch = nullptr;
    worker = &no_worker;
}

}  // namespace cpu_device
