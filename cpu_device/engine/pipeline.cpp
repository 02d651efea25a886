#include "cpu_device/pipeline.h"

#include "report.h"
#include "worker.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace cpu_device {
namespace {

void add(CopyQueue& queue, const PendingCopy& copy)
{
    if (queue.count == queue.capacity) {
        queue.capacity = queue.capacity ? 2 * queue.capacity : 16;
        void* const memory = std::realloc(queue.copies, queue.capacity * sizeof(PendingCopy));
        if (!memory)
            die("no memory for the %u copies that a thread has begun", queue.count);
        queue.copies = static_cast<PendingCopy*>(memory);
    }
    queue.copies[queue.count++] = copy;
}

}  // namespace

void copy_later(void* to, const void* from, size_t bytes, size_t zeros)
{
    Worker& w = *worker;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        fail_kernel(cudaErrorLaunchFailure,
                    "__pipeline_memcpy_async: %zu bytes, of which %zu are zeros, where 4, 8 or 16 "
                    "can be copied",
                    bytes, zeros);
    for (const void* const address : {static_cast<const void*>(to), from})
        if (reinterpret_cast<uintptr_t>(address) % bytes)
            fail_kernel(cudaErrorMisalignedAddress,
                        "__pipeline_memcpy_async: %zu bytes at %p, which is not a multiple of it",
                        bytes, address);
    w.copies_begun = true;
    CopyQueue& queue = w.copies[w.current];
    add(queue, {to, from, bytes, zeros, queue.batches});
}

void commit_copies()
{
    ++worker->copies[worker->current].batches;
}

void finish_copies(size_t batches_left)
{
    CopyQueue& queue = worker->copies[worker->current];
    unsigned done = 0;
    for (; done < queue.count; ++done) {
        const PendingCopy& copy = queue.copies[done];
        if (copy.batch + batches_left >= queue.batches)
            break;
        const size_t read = copy.bytes - copy.zeros;
        std::memcpy(copy.to, copy.from, read);
        std::memset(static_cast<char*>(copy.to) + read, 0, copy.zeros);
    }
    queue.count -= done;
    if (done && queue.count)
        std::memmove(queue.copies, queue.copies + done, queue.count * sizeof(PendingCopy));
}

}  // namespace cpu_device
