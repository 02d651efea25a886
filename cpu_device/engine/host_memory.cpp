#include "host_memory.h"

#include "engine.h"
#include "sanitizers.h"

#include <cstring>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace cpu_device {

#ifdef CPU_DEVICE_ASAN

namespace {

struct Region {
    unsigned argument;
    char* start;
    size_t bytes;
};

// Of the one launch that runs
std::vector<Region>& regions()
{
    static std::vector<Region>& only = *new std::vector<Region>;
    return only;
}

std::mutex lock;
thread_local bool changing = false;

std::unordered_set<const void*>& allocated_by_kernels()
{
    static auto& only = *new std::unordered_set<const void*>;
    return only;
}

// The set allocates and frees as well, of which it need not know.
template <class Change>
void change_allocations(Change change)
{
    if (changing)
        return;
    changing = true;
    {
        const std::lock_guard<std::mutex> hold(lock);
        change(allocated_by_kernels());
    }
    changing = false;
}

}  // namespace

void note_allocation(const void* block)
{
    change_allocations([&](auto& blocks) { blocks.insert(block); });
}

void note_free(const void* block)
{
    change_allocations([&](auto& blocks) { blocks.erase(block); });
}

ClosedToKernel::ClosedToKernel(const Launch& launch)
{
    for (unsigned i = 0; i < launch.structure_count; ++i) {
        const auto [argument, start, bytes] = launch.structures[i];
        for (size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
            void* address;
            std::memcpy(&address, static_cast<const char*>(start) + at, sizeof address);
            if (!address || is_poisoned(address) || engine().memory.find(address))
                continue;
            char name[64];
            void* region = nullptr;
            size_t region_bytes = 0;
            const char* const kind =
                __asan_locate_address(address, name, sizeof name, &region, &region_bytes);
            const bool is_hosts = !allocated_by_kernels().count(region);
            if (region && is_hosts && (!std::strcmp(kind, "heap") || !std::strcmp(kind, "stack")))
                regions().push_back({argument, static_cast<char*>(region), region_bytes});
        }
    }
    for (const Region& region : regions())
        poison(region.start, region.bytes);
}

ClosedToKernel::~ClosedToKernel()
{
    for (const Region& region : regions())
        unpoison(region.start, region.bytes);
    regions().clear();
}

unsigned argument_that_leads_to(const void* address)
{
    const char* const at = static_cast<const char*>(address);
    for (const Region& region : regions())
        if (at >= region.start && at < region.start + region.bytes)
            return region.argument;
    return 0;
}

#else

ClosedToKernel::ClosedToKernel(const Launch&) {}
ClosedToKernel::~ClosedToKernel() {}

#endif

}  // namespace cpu_device
