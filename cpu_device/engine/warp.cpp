// Warp functions. All of them are one: lanes meet, and each reads what it wants of what the others
// brought.

#include "report.h"
#include "sanitizers.h"
#include "worker.h"

#include "cpu_device/synchronization.h"

#include <cstring>

namespace cpu_device {
namespace {

void let_go(Warp& warp, Meeting* meeting)
{
    if (meeting && --meeting->readers == 0)
        warp.idle_meetings |= 1ull << (meeting - warp.meetings);
}

Meeting* begin_meeting(Warp& warp, unsigned mask, const char* operation, unsigned line)
{
    const int free = __builtin_ctzll(warp.idle_meetings);
    warp.idle_meetings &= ~(1ull << free);
    Meeting* const meeting = &warp.meetings[free];
    meeting->mask = mask;
    meeting->arrived = 0;
    meeting->readers = 0;
    meeting->operation = operation;
    meeting->line = line;
    return meeting;
}

void end_meeting(Worker& w, unsigned warp_number, unsigned place, unsigned already_running)
{
    Warp& warp = w.warp[warp_number];
    for (unsigned waiting = warp.place[place]->arrived & ~already_running; waiting;
         waiting &= waiting - 1)
        wake(w, warp_number * warp_size + __builtin_ctz(waiting));
    warp.pending &= ~(1u << place);
    warp.order_phase ^= 1u << place;
}

}  // namespace

void begin_warps(Worker& w)
{
    for (unsigned i = 0; i * warp_size < w.threads; ++i) {
        const unsigned lanes = w.threads - i * warp_size;
        w.warp[i].live = lanes >= warp_size ? ~0u : (1u << lanes) - 1;
        w.warp[i].pending = 0;
        w.warp[i].idle_meetings = (1ull << (warp_size + 1)) - 1;
    }
}

void leave_warp(Worker& w, unsigned thread)
{
    Warp& warp = w.warp[thread / warp_size];
    warp.live &= ~(1u << thread % warp_size);
    let_go(warp, w.thread[thread].meeting);
    for (unsigned pending = warp.pending; pending; pending &= pending - 1) {
        const unsigned place = __builtin_ctz(pending);
        const Meeting& meeting = *warp.place[place];
        if (meeting.arrived == (meeting.mask & warp.live))
            end_meeting(w, thread / warp_size, place, 0);
    }
}

unsigned lane()
{
    return worker->current % warp_size;
}

unsigned live_lanes()
{
    return worker->warp[worker->current / warp_size].live;
}

Met meet(unsigned mask, uint64_t value, const char* operation, unsigned line, bool orders_memory)
{
    Worker& w = *worker;
    const unsigned warp_number = w.current / warp_size;
    const unsigned own_bit = 1u << w.current % warp_size;
    Warp& warp = w.warp[warp_number];
    Thread& me = w.thread[w.current];
    if (!(mask & own_bit))
        fail_kernel(cudaErrorLaunchFailure,
                    "%s on line %u: the mask 0x%08x leaves out the lane that gives it, lane %u",
                    operation, line, mask, w.current % warp_size);

    let_go(warp, me.meeting);
    const unsigned place = __builtin_ctz(mask);
    char* const order_token = &warp.order_tokens[place][warp.order_phase >> place & 1];
    if (!(warp.pending >> place & 1)) {
        warp.place[place] = begin_meeting(warp, mask, operation, line);
        warp.pending |= 1u << place;
    }
    Meeting& meeting = *warp.place[place];
    if (meeting.mask != mask)
        fail_kernel(cudaErrorLaunchFailure,
                    "%s on line %u: lanes of one warp give different masks, 0x%08x and, on line "
                    "%u, 0x%08x",
                    operation, line, mask, meeting.line, meeting.mask);
    if (meeting.operation != operation && std::strcmp(meeting.operation, operation) != 0)
        fail_kernel(cudaErrorLaunchFailure,
                    "lanes of one warp meet at different operations: %s on line %u and %s on line "
                    "%u",
                    meeting.operation, meeting.line, operation, line);

    me.meeting = &meeting;
    ++meeting.readers;
    meeting.values[w.current % warp_size] = value;
    meeting.arrived |= own_bit;
    if (orders_memory)
        release(order_token);
    if (meeting.arrived == (mask & warp.live)) {
        end_meeting(w, warp_number, place, own_bit);
    } else {
        me.waits_at = operation;
        me.line = line;
        wait();
    }
    if (orders_memory)
        acquire(order_token);
    return {meeting.values, meeting.arrived};
}

// The lanes that ask on the same line while all others of the block wait for something else: those
// that a GPU, which runs lanes side by side, would find converged.
unsigned active_mask(unsigned line)
{
    Worker& w = *worker;
    Thread& me = w.thread[w.current];
    me.waits_at = converging_name;
    me.line = line;
    w.converging.push(w.current);
    wait();
    return me.converged;
}

void release_converging(Worker& w)
{
    for (unsigned i = 0; i < w.converging.size(); ++i) {
        Thread& me = w.thread[w.converging[i]];
        const unsigned first = w.converging[i] / warp_size * warp_size;
        me.converged = 0;
        for (unsigned lane = 0; lane < warp_size && first + lane < w.threads; ++lane) {
            const Thread& other = w.thread[first + lane];
            if (other.waits_at == converging_name && other.line == me.line)
                me.converged |= 1u << lane;
        }
    }
    while (!w.converging.empty())
        wake(w, w.converging.pop());
}

}  // namespace cpu_device
