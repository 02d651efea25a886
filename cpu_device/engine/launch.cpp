// A launch: what is wrong with it is said at once, the rest when it runs.

#include "engine.h"
#include "host_memory.h"
#include "report.h"
#include "sanitizers.h"
#include "settings.h"
#include "watchdog.h"

#include "cpu_device/language.h"

#include <condition_variable>
#include <dlfcn.h>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>

namespace cpu_device {
namespace {

constexpr size_t shared_bytes_by_default = 48 << 10;
constexpr int shared_bytes_at_most = 227 << 10;

bool is_valid(dim3 grid, dim3 block)
{
    const unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
    return grid.x && grid.y && grid.z && grid.x <= 2147483647u && grid.y <= 65535
           && grid.z <= 65535 && threads && block.x <= 1024 && block.y <= 1024 && block.z <= 64
           && threads <= max_threads;
}

// A kernel may have asked for more than 48 KiB. One that does not tell who it is gets what the
// most demanding asked for.
size_t dynamic_shared_limit(const Engine& e, const void* function)
{
    size_t limit = shared_bytes_by_default;
    for (const auto& [asking, bytes] : e.dynamic_shared_limits)
        if ((!function || asking == function) && size_t(bytes) > limit)
            limit = bytes;
    return limit;
}

// The workers besides the thread that waits for the launch, which is a worker as well. They sleep
// until there is a launch with blocks to take.
class Pool {
public:
    void work(Run& launch, Worker& own)
    {
        const unsigned helpers = settings().workers - 1;
        if (launch.blocks > 1 && helpers) {
            const std::lock_guard<std::mutex> guard(lock);
            for (; started < helpers; ++started)
                std::thread(&Pool::help, this, make_worker()).detach();
            run = &launch;
            ++number;
            begun.notify_all();
        }
        take_blocks(launch, own);

        // Who has not woken up by now need not come.
        std::unique_lock<std::mutex> guard(lock);
        run = nullptr;
        ended.wait(guard, [this] { return busy == 0; });
    }

private:
    std::mutex lock;
    std::condition_variable begun, ended;
    unsigned started = 0;                  // helpers
    Run* run = nullptr;
    unsigned long long number = 0;         // of launches so far
    unsigned busy = 0;                     // helpers at work

    static void take_blocks(Run& run, Worker& worker)
    {
        const Watched watched(*run.launch);
        prepare_signal_stack();
        begin_launch(worker, run);
        for (;;) {
            if (__atomic_load_n(&run.error, __ATOMIC_RELAXED) != cudaSuccess)
                break;
            const unsigned long long block = __atomic_fetch_add(&run.next, 1, __ATOMIC_RELAXED);
            if (block >= run.blocks)
                break;
            run_one(worker, block_at(run, block));
        }
        end_launch(worker);
    }

    static unsigned long long block_at(const Run& run, unsigned long long turn)
    {
        switch (settings().order) {
        case Order::forward:
            return turn;
        case Order::reverse:
            return run.blocks - 1 - turn;
        case Order::random:
            break;
        }
        return (unsigned long long)(((unsigned __int128)turn * run.stride + run.first)
                                    % run.blocks);
    }

    // A new thread of the operating system has __shared__ variables of its own, so to
    // ThreadSanitizer no block uses those of another.
    static void run_one(Worker& worker, unsigned long long block)
    {
        if (tsan)
            std::thread(run_block, std::ref(worker), block).join();
        else
            run_block(worker, block);
    }

    void help(Worker* own)
    {
        unsigned long long seen = 0;
        std::unique_lock<std::mutex> guard(lock);
        for (;;) {
            begun.wait(guard, [&] { return run && number != seen; });
            seen = number;
            Run& taken = *run;
            ++busy;
            guard.unlock();
            take_blocks(taken, *own);
            guard.lock();
            if (--busy == 0)
                ended.notify_all();
        }
    }
};

// The name that the linker knows a kernel by; empty for one that it keeps to itself.
std::string linked_name(const void* function)
{
    Dl_info symbol;
    if (!dladdr(function, &symbol) || symbol.dli_saddr != function)
        return {};
    std::string name = demangled(symbol.dli_sname);    // void add<1>(unsigned long, float*)
    if (name == symbol.dli_sname)                      // it is extern "C", and was written so
        return {};
    size_t end = name.size();
    for (int open = 0; end > 0;) {
        --end;
        open += (name[end] == ')') - (name[end] == '(');
        if (open == 0)
            break;
    }
    name.resize(end);
    return name.compare(0, 5, "void ") == 0 ? name.substr(5) : name;
}

// The kernel's own name, also where it was launched through a pointer of another.
const char* name_of(const void* function, const char* written)
{
    static auto& names = *new std::unordered_map<const void*, std::string>;
    const auto [place, is_new] = names.try_emplace(function, written);
    if (is_new)
        if (const std::string name = linked_name(function); !name.empty())
            place->second = name;
    return place->second.c_str();
}

// True, after a line about it, when the kernel is given memory of the host. On a GPU it would
// fault as soon as it used it.
bool has_host_pointer(Memory& memory, const Launch& launch)
{
    for (unsigned i = 0; i < launch.pointer_count; ++i) {
        const auto [number, address] = launch.pointers[i];
        if (memory.find(address) || !memory.is_of_host(address))
            continue;
        say("%s: argument %u, %p, is a host pointer; a kernel needs device memory", launch.name,
            number, address);
        return true;
    }
    return false;
}

}  // namespace

cudaError_t run(Launch& launch)
{
    static Pool& pool = *new Pool;
    static Worker& own = *make_worker();

    Memory& memory = engine().memory;
    if (has_host_pointer(memory, launch))
        return cudaErrorIllegalAddress;
    memory.open_all();

    Run run;
    run.launch = &launch;
    run.blocks = (unsigned long long)launch.grid.x * launch.grid.y * launch.grid.z;
    if (settings().order == Order::random) {
        uint64_t random = settings().seed;
        run.first = next_random(random) % run.blocks;
        do
            run.stride = next_random(random) % run.blocks + 1;
        while (std::gcd(run.stride, run.blocks) != 1);
    }
    const ClosedToKernel closed(launch);
    pool.work(run, own);
    return cudaError_t(run.error);
}

cudaError_t submit(Launch* made)
{
    if (in_kernel())
        fail_kernel(cudaErrorNotSupported,
                    "launches a kernel, which on the CPU device only the host can do");
    const std::shared_ptr<Launch> launch(made);
    return api([&](Engine& e) {
        if (launch->function)
            launch->name = name_of(launch->function, launch->name);
        if (!is_valid(launch->grid, launch->block))
            return cudaErrorInvalidValue;
        if (launch->shared_bytes > dynamic_shared_limit(e, launch->function))
            return cudaErrorInvalidValue;
        const cudaError_t error = enqueue(e, launch->stream, [launch] { return run(*launch); });
        if (error == cudaSuccess && settings().blocking && !e.queue.capture)
            return drain(e);
        return error;
    });
}

cudaError_t set_function_attribute(const void* function, cudaFuncAttribute attribute, int value)
{
    return api([=](Engine& e) {
        if (!function)
            return cudaErrorInvalidDeviceFunction;
        switch (attribute) {
        case cudaFuncAttributeMaxDynamicSharedMemorySize:
            if (value < 0 || value > shared_bytes_at_most)
                return cudaErrorInvalidValue;
            e.dynamic_shared_limits[function] = value;
            return cudaSuccess;
        case cudaFuncAttributePreferredSharedMemoryCarveout:
            return value < -1 || value > 100 ? cudaErrorInvalidValue : cudaSuccess;
        default:
            return cudaErrorNotSupported;  // clusters
        }
    });
}

// What is not known here, such as registers, is 0.
cudaError_t function_attributes(cudaFuncAttributes* attributes, const void* function)
{
    return api([=](Engine& e) {
        if (!attributes)
            return cudaErrorInvalidValue;
        if (!function)
            return cudaErrorInvalidDeviceFunction;
        *attributes = {};
        attributes->maxThreadsPerBlock = max_threads;
        attributes->maxDynamicSharedSizeBytes = int(dynamic_shared_limit(e, function));
        attributes->preferredShmemCarveout = cudaSharedmemCarveoutDefault;
        return cudaSuccess;
    });
}

// A worker runs one block at a time.
cudaError_t blocks_per_multiprocessor(int* blocks, const void* function, int block_threads,
                                      size_t shared_bytes)
{
    return api([=](Engine& e) {
        if (!blocks || block_threads < 1)
            return cudaErrorInvalidValue;
        if (!function)
            return cudaErrorInvalidDeviceFunction;
        *blocks = block_threads <= int(max_threads)
                  && shared_bytes <= dynamic_shared_limit(e, function);
        return cudaSuccess;
    });
}

}  // namespace cpu_device
