// A kernel that never ends, for instance because a thread spins on what another, which cannot run
// meanwhile, has to do, is ended after CPU_DEVICE_TIMEOUT seconds. The other may be of its block,
// or of one that has not begun.

#include "watchdog.h"

#include "report.h"
#include "sanitizers.h"
#include "settings.h"

#include <csignal>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

namespace cpu_device {
namespace {

using Clock = std::chrono::steady_clock;

// One that nothing else is likely to use, and that a debugger lets pass.
const int wake_up = SIGURG;

void on_wake_up(int)
{
    if (!in_kernel())
        return;
    Worker& w = *worker;
    if (claim_error(w, cudaErrorLaunchTimeout)) {
        say("%s: still runs after %u seconds (CPU_DEVICE_TIMEOUT)", where(w).text,
            settings().timeout);
        say("    threads of a block take turns here: one that spins until another has done "
            "something, without a barrier, waits for ever");
        const unsigned long long begun = __atomic_load_n(&w.run->next, __ATOMIC_RELAXED);
        if (begun < w.run->blocks)
            say("    so does one that spins until another block has done something: of %llu blocks "
                "%llu have begun, and the others wait until one of these is over", w.run->blocks,
                begun);
    }
    leave_kernel(cudaErrorLaunchTimeout);
}

bool is_debugged()
{
    int tracer = 0;
    if (FILE* const status = std::fopen("/proc/self/status", "r")) {
        char line[256];
        while (std::fgets(line, sizeof line, status)
               && std::sscanf(line, "TracerPid: %d", &tracer) != 1) {
        }
        std::fclose(status);
    }
    return tracer != 0;
}

class Watchdog {
public:
    void add(Watched& one)
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (!started) {
            struct sigaction action {};
            action.sa_handler = on_wake_up;
            action.sa_flags = SA_ONSTACK | SA_NODEFER;
            sigaction(wake_up, &action, nullptr);
            std::thread(&Watchdog::work, this).detach();
            started = true;
        }
        watched.insert(&one);
    }

    void remove(Watched& one)
    {
        const std::lock_guard<std::mutex> guard(lock);
        watched.erase(&one);
    }

private:
    std::mutex lock;
    bool started = false;
    std::set<Watched*> watched;

    void work()
    {
        constexpr std::chrono::milliseconds look_every(250);
        constexpr std::chrono::seconds patience(5);
        const std::chrono::seconds timeout(settings().timeout);
        for (;;) {
            std::this_thread::sleep_for(look_every);
            const std::lock_guard<std::mutex> guard(lock);
            for (Watched* one : watched) {
                const Clock::duration time = Clock::now() - one->since;
                if (time < timeout || is_debugged())
                    continue;
                // ThreadSanitizer holds signals back.
                if (tsan || time > timeout + patience)
                    die("%s still runs after %u seconds (CPU_DEVICE_TIMEOUT)",
                        one->launch.name, settings().timeout);
                pthread_kill(one->thread, wake_up);
            }
        }
    }
};

Watchdog& watchdog()
{
    static Watchdog& only = *new Watchdog;
    return only;
}

}  // namespace

Watched::Watched(const Launch& launch_)
    : launch(launch_), thread(pthread_self()), since(Clock::now())
{
    if (settings().timeout)
        watchdog().add(*this);
}

Watched::~Watched()
{
    if (settings().timeout)
        watchdog().remove(*this);
}

}  // namespace cpu_device
