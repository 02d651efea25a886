#include "engine.h"

#include "report.h"
#include "settings.h"

#include <cstdlib>

namespace cpu_device {
namespace {

void at_exit()
{
    Engine& e = engine();
    const size_t left = e.queue.operations.size();
    if (left && !e.sticky)
        say("the program ended without waiting for %zu operation%s, which never ran", left,
            left == 1 ? "" : "s");
}

}  // namespace

thread_local cudaError_t last_error = cudaSuccess;
thread_local bool in_host_function = false;

Engine::Engine() : memory(settings().memory)
{
    if (!settings().quiet)
        say("no GPU used; results are real, times are not");
    catch_faults();
}

Engine& engine()
{
    static Engine* const only = [] {
        Engine* const made = new Engine;
        std::atexit(at_exit);
        return made;
    }();
    return *only;
}

// What the host may not touch is closed before main. The engine comes later, with the first call: a
// program may set variables of its environment before that.
__attribute__((constructor)) static void begin()
{
    if (!Memory::has_variables())
        return;
    Memory::set_variables_open(false);
    catch_faults();
}

// Not being ready is an answer.
cudaError_t remember(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t not_supported(const char* what)
{
    say("%s needs a GPU", what);
    return report_error(cudaErrorNotSupported);
}

cudaError_t report_error(cudaError_t error)
{
    return api([=](Engine&) { return error; });
}

}  // namespace cpu_device
