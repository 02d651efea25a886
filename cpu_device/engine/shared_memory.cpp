// A block's dynamic shared memory ends where a closed page begins, so an index past the end faults.
// Under AddressSanitizer it is a heap block with red zones.
//
// All shared memory, dynamic or not, is full of 0xFF when a block begins, for on a GPU, too, nobody
// clears it.

#include "shared_memory.h"

#include "pages.h"
#include "report.h"
#include "sanitizers.h"

#include "cpu_device/static_shared.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace cpu_device {
namespace {

// As aligned as its size allows, so that it ends at the closed page.
size_t alignment_of(size_t bytes)
{
    size_t alignment = 16;
    while (alignment < 1024 && bytes % (2 * alignment) == 0)
        alignment *= 2;
    return alignment;
}

char* map(size_t bytes)
{
    const size_t inside = round_up(bytes, page_bytes());
    void* const start = mmap(nullptr, inside + page_bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        die("no memory for %zu bytes of shared memory", bytes);
    mprotect(static_cast<char*>(start) + inside, page_bytes(), PROT_NONE);
    return static_cast<char*>(start) + inside - round_up(bytes, alignment_of(bytes));
}

void unmap(char* memory, size_t bytes)
{
    const size_t inside = round_up(bytes, page_bytes());
    char* const start = memory + round_up(bytes, alignment_of(bytes)) - inside;
    munmap(start, inside + page_bytes());
}

SharedOfFile* of_files = nullptr;

}  // namespace

void* dynamic_shared()
{
    return worker->shared;
}

// ThreadSanitizer knows of what memset does, and a thread that comes by later has no barrier with
// the one that fills.
void fill_shared(const volatile void* memory, size_t bytes)
{
    char* const start = static_cast<char*>(const_cast<void*>(memory));
    if (!tsan)
        std::memset(start, 0xFF, bytes);
    else
        for (volatile char* to = start; to < start + bytes; ++to)
            *to = char(0xFF);
}

#ifdef CPU_DEVICE_TSAN
bool is_new_in_block(unsigned long long& seen)
{
    const bool is_new = seen != block_serial;
    seen = block_serial;
    return is_new;
}
#endif

SharedOfFile::SharedOfFile(void (*fill_)()) : fill(fill_), next(of_files)
{
    of_files = this;
}

void open_shared_memory(Worker& w)
{
    for (const SharedOfFile* one = of_files; one; one = one->next)
        one->fill();
    const size_t bytes = w.launch->shared_bytes;
    if (!bytes)
        return;
    if (!w.shared) {
        w.shared_bytes = bytes;
        void* memory = nullptr;
        if (!asan)
            memory = map(bytes);
        else if (posix_memalign(&memory, 1024, bytes) != 0)
            die("no memory for %zu bytes of shared memory", bytes);
        w.shared = static_cast<char*>(memory);
    }
    fill_shared(w.shared, bytes);
}

// ThreadSanitizer takes memory that was mapped anew for new, and so does not take two blocks that
// use the same for a race.
void close_shared_memory(Worker& w)
{
    if (tsan)
        free_shared_memory(w);
}

void free_shared_memory(Worker& w)
{
    if (w.shared) {
        if (asan)
            std::free(w.shared);
        else
            unmap(w.shared, w.shared_bytes);
    }
    w.shared = nullptr;
}

size_t past_shared_memory(const Worker& w, const void* address)
{
    const char* const at = static_cast<const char*>(address);
    const char* const end = w.shared + w.shared_bytes;
    return w.shared && at >= end && at < end + page_bytes() ? size_t(at - end) + 1 : 0;
}

}  // namespace cpu_device
