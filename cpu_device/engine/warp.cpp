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
        warp.idle |= 1ull << (meeting - warp.meetings);
}

// The one that this lane is expected in, or a new one.
Meeting& find_meeting(Warp& warp, unsigned own_bit, unsigned mask, const char* operation,
                      unsigned line)
{
    for (uint64_t pending = warp.pending; pending; pending &= pending - 1) {
        Meeting& meeting = warp.meetings[__builtin_ctzll(pending)];
        if (meeting.mask == mask)
            return meeting;
        // Lanes wait for this one, and it would wait for them, elsewhere.
        if ((meeting.mask & own_bit) && (meeting.arrived & mask))
            fail_kernel(cudaErrorLaunchFailure,
                        "%s on line %u: lanes of one warp give different masks, 0x%08x and, on "
                        "line %u, 0x%08x",
                        operation, line, mask, meeting.line, meeting.mask);
    }

    // Better the one that the same lanes had before: its token orders just these.
    unsigned number = __builtin_ctzll(warp.idle);
    for (uint64_t idle = warp.idle; idle; idle &= idle - 1) {
        const unsigned candidate = __builtin_ctzll(idle);
        if (warp.meetings[candidate].mask == mask || warp.meetings[candidate].mask == 0) {
            number = candidate;
            break;
        }
    }
    warp.idle &= ~(1ull << number);
    warp.pending |= 1ull << number;
    Meeting& meeting = warp.meetings[number];
    meeting.mask = mask;
    meeting.arrived = 0;
    meeting.readers = 0;
    meeting.operation = operation;
    meeting.line = line;
    return meeting;
}

void end_meeting(Worker& w, unsigned warp_number, const Meeting& meeting, unsigned already_running)
{
    Warp& warp = w.warp[warp_number];
    for (unsigned waiting = meeting.arrived & ~already_running; waiting; waiting &= waiting - 1)
        wake(w, warp_number * warp_size + __builtin_ctz(waiting));
    warp.pending &= ~(1ull << (&meeting - warp.meetings));
}

}  // namespace

void begin_warps(Worker& w)
{
    for (unsigned i = 0; i * warp_size < w.threads; ++i) {
        const unsigned lanes = w.threads - i * warp_size;
        w.warp[i].live = lanes >= warp_size ? ~0u : (1u << lanes) - 1;
        w.warp[i].pending = 0;
        w.warp[i].idle = (1ull << Warp::max_meetings) - 1;
        if (tsan)
            for (Meeting& meeting : w.warp[i].meetings)
                if (meeting.mask) {
                    forget(&meeting.order_token);
                    meeting.mask = 0;
                }
    }
}

void leave_warp(Worker& w, unsigned thread)
{
    Warp& warp = w.warp[thread / warp_size];
    warp.live &= ~(1u << thread % warp_size);
    let_go(warp, w.thread[thread].meeting);
    for (uint64_t pending = warp.pending; pending; pending &= pending - 1) {
        const Meeting& meeting = warp.meetings[__builtin_ctzll(pending)];
        if (meeting.arrived == (meeting.mask & warp.live))
            end_meeting(w, thread / warp_size, meeting, 0);
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
    if (!w.in_kernel)
        die("%s on line %u is called by the host; only a kernel has a warp", operation, line);
    const unsigned warp_number = w.current / warp_size, lane = w.current % warp_size;
    const unsigned own_bit = 1u << lane;
    Warp& warp = w.warp[warp_number];
    Thread& me = w.thread[w.current];
    if (!(mask & own_bit))
        fail_kernel(cudaErrorLaunchFailure,
                    "%s on line %u: the mask 0x%08x leaves out the lane that gives it, lane %u",
                    operation, line, mask, lane);

    let_go(warp, me.meeting);
    Meeting& meeting = find_meeting(warp, own_bit, mask, operation, line);
    if (meeting.operation != operation && std::strcmp(meeting.operation, operation) != 0)
        fail_kernel(cudaErrorLaunchFailure,
                    "lanes of one warp meet at different operations, %s on line %u and %s on line "
                    "%u",
                    meeting.operation, meeting.line, operation, line);

    me.meeting = &meeting;
    ++meeting.readers;
    meeting.values[lane] = value;
    meeting.arrived |= own_bit;
    if (orders_memory)
        release(&meeting.order_token);
    if (meeting.arrived == (mask & warp.live)) {
        end_meeting(w, warp_number, meeting, own_bit);
    } else {
        me.waits_at = operation;
        me.line = line;
        me.mask = mask;
        wait();
    }
    if (orders_memory)
        acquire(&meeting.order_token);
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
    return me.mask;
}

void release_converging(Worker& w)
{
    for (unsigned i = 0; i < w.converging.size(); ++i) {
        Thread& me = w.thread[w.converging[i]];
        const unsigned first = w.converging[i] / warp_size * warp_size;
        me.mask = 0;
        for (unsigned lane = 0; lane < warp_size && first + lane < w.threads; ++lane) {
            const Thread& other = w.thread[first + lane];
            if (other.waits_at == converging_name && other.line == me.line)
                me.mask |= 1u << lane;
        }
    }
    while (!w.converging.empty())
        wake(w, w.converging.pop());
}

}  // namespace cpu_device
