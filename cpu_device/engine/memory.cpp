// A buffer lies between two closed pages, as near to the second as its alignment allows, so that a
// kernel that runs past its end faults, as it may on a GPU. Fresh device memory is full of 0xFF,
// which is NaN and -1: a GPU does not clear it either.
//
// Under AddressSanitizer buffers are blocks of the heap, which it knows how to watch.

#include "memory.h"

#include "pages.h"
#include "sanitizers.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sys/mman.h>

// Where the linker has put the variables that are __managed__, if there are any.
extern "C" char __start_cpu_device_managed[] __attribute__((weak));
extern "C" char __stop_cpu_device_managed[] __attribute__((weak));
// And where it has put __device__ and __constant__ variables, in pages of their own: it aligns
// them as the strictest of them is, our own, which is the last since the engine is linked last.
extern "C" char __start_cpu_device_variables[] __attribute__((weak, visibility("hidden")));
__attribute__((section("cpu_device_variables"), used, aligned(4096)))
static char end_of_variables[4096];

namespace cpu_device {
namespace {

constexpr size_t alignment = 256;          // what cudaMalloc promises
constexpr size_t freed_buffers_kept = 64;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// None are closed where pages are larger than those that they have of their own.
size_t variables_bytes()
{
    return page_bytes() <= sizeof end_of_variables
               ? number(end_of_variables) - number(__start_cpu_device_variables) : 0;
}

// To close and open a large buffer costs a little for each page, so it is given large pages where
// the system has them. It begins at the start of one.
bool map(Buffer& buffer)
{
    constexpr size_t large_page = size_t(2) << 20;
    const size_t page = page_bytes();
    const size_t inside = round_up(buffer.bytes, page);
    const size_t unit = inside < large_page ? page : large_page;
    const size_t reserved = inside + unit + page;
    void* const start = mmap(nullptr, reserved, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return false;
    buffer.reserved = static_cast<char*>(start);
    buffer.reserved_bytes = reserved;
    buffer.map = reinterpret_cast<char*>(round_up(number(start) + 1, unit));
    buffer.map_bytes = inside;
    if (unit == large_page)
        madvise(buffer.map, inside, MADV_HUGEPAGE);
    mprotect(buffer.map, inside, PROT_READ | PROT_WRITE);
    buffer.start = buffer.map + inside - round_up(buffer.bytes, alignment);
    return true;
}

bool take_from_heap(Buffer& buffer)
{
    void* start = nullptr;
    if (posix_memalign(&start, alignment, buffer.bytes) != 0)
        return false;
    buffer.start = static_cast<char*>(start);
    return true;
}

void set_open(Buffer& buffer, bool open)
{
    if (buffer.kind != Kind::device || buffer.open == open)
        return;
    buffer.open = open;
    if (asan)
        (open ? unpoison : poison)(buffer.start, buffer.bytes);
    else
        mprotect(buffer.map, buffer.map_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace

Memory::Memory(size_t bytes) : total(bytes)
{
    add_managed_variables();
}

bool Memory::has_variables() { return variables_bytes() > 0; }

bool Memory::is_variable(const void* address)
{
    return number(address) - number(__start_cpu_device_variables) < variables_bytes();
}

void Memory::set_variables_open(bool open)
{
    static bool are_open = true;
    if (are_open == open || !has_variables())
        return;
    are_open = open;
    mprotect(__start_cpu_device_variables, variables_bytes(),
             open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void Memory::add_managed_variables()
{
    if (__start_cpu_device_managed)
        add(__start_cpu_device_managed, __stop_cpu_device_managed - __start_cpu_device_managed,
            Kind::managed_variable);
}

Buffer* Memory::allocate(size_t bytes, Kind kind)
{
    const bool on_device = kind != Kind::pinned;
    if (on_device && bytes > free_bytes())
        return nullptr;
    Buffer buffer{nullptr, bytes, kind};
    if (!(asan ? take_from_heap(buffer) : map(buffer)))
        return nullptr;
    if (kind == Kind::device) {
        std::memset(buffer.start, 0xFF, bytes);
        buffer.open = true;
        set_open(buffer, all_open);
    }
    if (on_device)
        used += bytes;
    return &(buffers[number(buffer.start)] = buffer);
}

Buffer* Memory::add(void* start, size_t bytes, Kind kind)
{
    return &(buffers[number(start)] = Buffer{static_cast<char*>(start), bytes, kind});
}

void Memory::free(Buffer& buffer)
{
    if (buffer.kind == Kind::device || buffer.kind == Kind::managed)
        used -= buffer.bytes;
    const Buffer gone = buffer;
    buffers.erase(number(gone.start));
    if (gone.kind == Kind::registered || gone.kind == Kind::symbol
        || gone.kind == Kind::managed_variable)
        return;
    if (asan) {
        unpoison(gone.start, gone.bytes);
        std::free(gone.start);
    } else {
        madvise(gone.map, gone.map_bytes, MADV_DONTNEED);
        mprotect(gone.map, gone.map_bytes, PROT_NONE);
    }
    freed.push_back(gone);
    if (freed.size() > freed_buffers_kept) {
        if (!asan)
            munmap(freed.front().reserved, freed.front().reserved_bytes);
        freed.pop_front();
    }
}

void Memory::free_all()
{
    while (!buffers.empty())
        free(buffers.begin()->second);
    add_managed_variables();
}

Buffer* Memory::find(const void* address)
{
    const auto after = buffers.upper_bound(number(address));
    if (after == buffers.begin())
        return nullptr;
    Buffer& before = std::prev(after)->second;
    return before.contains(address) ? &before : nullptr;
}

bool Memory::is_of_host(const void* address) const
{
    const auto is_near = [=](const Buffer& buffer) {
        return buffer.reserved
                   ? number(address) - number(buffer.reserved) < buffer.reserved_bytes
                   : number(address) - number(buffer.start) <= round_up(buffer.bytes, alignment);
    };
    for (const auto& [start, buffer] : buffers)
        if (is_near(buffer))
            return false;
    for (const Buffer& buffer : freed)
        if (is_near(buffer))
            return false;
    if (asan)
        return !is_poisoned(address);
    const uintptr_t page = number(address) / page_bytes() * page_bytes();
    return msync(reinterpret_cast<void*>(page), page_bytes(), MS_ASYNC) == 0;
}

Buffer* Memory::overlapping(const void* start, size_t bytes)
{
    if (Buffer* const buffer = find(start))
        return buffer;
    const auto after = buffers.upper_bound(number(start));
    return after != buffers.end() && after->first < number(start) + bytes ? &after->second
                                                                         : nullptr;
}

Buffer* Memory::starting_at(const void* start)
{
    const auto found = buffers.find(number(start));
    return found == buffers.end() ? nullptr : &found->second;
}

void Memory::open(Buffer& buffer)
{
    set_open(buffer, true);
    if (is_variable(buffer.start))
        set_variables_open(true);
}

void Memory::open_all()
{
    all_open = true;
    set_variables_open(true);
    for (auto& [start, buffer] : buffers)
        set_open(buffer, true);
}

void Memory::close_all()
{
    all_open = false;
    set_variables_open(false);
    for (auto& [start, buffer] : buffers)
        set_open(buffer, false);
}

Memory::Neighbour Memory::near(const void* address) const
{
    // Beyond this nobody would believe that the buffer was meant.
    constexpr size_t far = size_t(1) << 30;
    const char* const at = static_cast<const char*>(address);
    for (const Buffer& buffer : freed)
        if (at >= buffer.map && at < buffer.map + buffer.map_bytes)
            return {&buffer, true};
    const Buffer* nearest = nullptr;
    size_t least = far;
    for (const auto& [start, buffer] : buffers) {
        const size_t distance = at < buffer.start
                                    ? size_t(buffer.start - at)
                                    : size_t(at - buffer.start) - (buffer.bytes - 1);
        if (distance < least) {
            least = distance;
            nearest = &buffer;
        }
    }
    return {nearest, false};
}

}  // namespace cpu_device
