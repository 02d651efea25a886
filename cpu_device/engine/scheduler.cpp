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
#include "cpu_device/static_shared.h"
#include "cpu_device/synchronization.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace cpu_device {
namespace {

// The worker of a thread that runs no block. It also keeps the pointer from being zero, for the
// reason that language.h gives.
Worker no_worker;

// ThreadSanitizer tells 256 threads apart at a time; with more it forgets what the first did. So 99
// threads of a block are all that it may see. The others pass for one of these, and a race between
// just two that pass for the same is missed.
constexpr unsigned identities = 99;

// It knows threads by their fibers, so under it each CUDA thread has one of its own. Two blocks
// that follow each other have none in common, and the assignment moves on, also after it has gone
// round: thread 5 of one block is not the thread 5 of another, and a race between them is seen.
unsigned fibers_of_a_block(const Worker& w) { return std::max(w.threads, identities); }

unsigned own_fiber(const Worker& w, unsigned thread)
{
    const unsigned long long fibers = fibers_of_a_block(w), pair = w.block / 2;
    const unsigned long long moved = pair * 67 + pair / fibers * 31;
    return unsigned(w.block % 2 * max_threads + (thread + moved) % fibers);
}

void identify(Worker& w, unsigned number)
{
#ifdef CPU_DEVICE_TSAN
    const unsigned place = number % max_threads;
    const unsigned passes_for = number - place / identities * identities;
    w.fibers[number]->tsan_fiber = passes_for == number ? __tsan_create_fiber(0)
                                                        : w.fibers[passes_for]->tsan_fiber;
#else
    (void)w;
    (void)number;
#endif
}

Fiber* add_fiber(Worker& w, unsigned number)
{
    Fiber* const fiber = w.fibers[number] = new Fiber;
    if (!create(*fiber, number))
        die("no memory for the stacks of %u CUDA threads", w.fiber_count + 1);
    ++w.fiber_count;
    identify(w, number);
    return fiber;
}

Fiber* fresh_fiber(Worker& w)
{
    if (tsan)
        return w.fibers[own_fiber(w, w.order[w.started])];
    return w.idle_count ? w.idle[--w.idle_count] : add_fiber(w, w.fiber_count);
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

// `items` has a [] that gives a reference.
template <class Items>
void shuffle(Worker& w, Items& items, unsigned count)
{
    for (unsigned i = count; i > 1; --i)
        std::swap(items[i - 1], items[unsigned(next_random(w.random) % i)]);
}

void open_barrier(Worker& w)
{
    if (w.arrived < w.threads && is_first(w.run->noted_early_return))
        report_early_return(w);
    const Order order = settings().order;
    if (order == Order::random)
        shuffle(w, w.at_barrier, w.at_barrier.size());
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
    --w.live;
    release(&w.end_token);
    leave_warp(w, w.current);
    if (w.arrived && w.arrived == w.live)
        open_barrier(w);
}

// In which the threads start; a random one is the block's own.
void set_order(Worker& w)
{
    const Order order = settings().order;
    for (unsigned i = 0; i < w.threads; ++i)
        w.order[i] = order == Order::reverse ? w.threads - 1 - i : i;
    if (order == Order::random) {
        w.random = settings().seed + w.block;
        shuffle(w, w.order, w.threads);
    }
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
    if (!w.in_kernel)
        die("%s on line %u is called by the host; only a kernel has a block to wait for", name, line);
    const unsigned phase = w.phase;
    if (w.arrived == 0)
        w.barrier_line = line;
    else if (w.barrier_line != line && is_first(w.run->noted_two_barriers))
        report_two_barriers(w, line);
    w.votes[phase] += vote;
    release(&w.barrier_tokens[phase]);
    if (++w.arrived == w.live) {
        open_barrier(w);
    } else {
        Thread& me = w.thread[w.current];
        me.waits_at = name;
        me.line = line;
        me.mask = 0;
        w.at_barrier.push(w.current);
        wait();
    }
    acquire(&w.barrier_tokens[phase]);
    return {w.votes[phase], w.voters[phase]};
}

void leave_kernel(cudaError_t error)
{
    Worker& w = *worker;
    w.error = error;
    leave_for(w.home);
}

Worker* make_worker()
{
    // The warps' memory is not touched before a warp function is called.
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
        for (unsigned half = 0; half < max_fibers; half += max_threads)
            for (unsigned i = 0; i < fibers_of_a_block(w); ++i)
                if (!w.fibers[half + i])
                    add_fiber(w, half + i);
}

void run_block(Worker& w, unsigned long long block)
{
    const dim3 grid = w.launch->grid;
    worker = &w;
    w.block = block;
    block_serial = ++w.serial;
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
    if (settings().order == Order::random)
        set_order(w);
    open_shared_memory(w);
    for (char& token : w.barrier_tokens)
        forget(&token);
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
#ifdef CPU_DEVICE_TSAN
    // Threads that were stopped on their way have not released what they did.
    for (unsigned thread = 0; w.error && thread < w.threads; ++thread) {
        __tsan_switch_to_fiber(w.fibers[own_fiber(w, thread)]->tsan_fiber, 1);
        release(&w.end_token);
    }
    __tsan_switch_to_fiber(w.home.tsan_fiber, 1);
#endif
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
