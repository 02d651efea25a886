// The watchdog ends launches that take too long.
#pragma once

#include "worker.h"

#include <chrono>
#include <pthread.h>

namespace cpu_device {

// As long as it exists, its thread of the operating system may be made to leave the kernel.
struct Watched {
    const Launch& launch;
    const pthread_t thread;
    const std::chrono::steady_clock::time_point since;

    explicit Watched(const Launch& launch);
    ~Watched();
};

}  // namespace cpu_device
