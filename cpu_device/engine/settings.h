// What the environment asks of the CPU device.
#pragma once

#include <cstddef>

namespace cpu_device {

enum class Order { forward, reverse, random };

struct Settings {
    size_t memory = 0;                     // CPU_DEVICE_MEMORY, in bytes; else 2 GiB, or less
    unsigned workers = 1;                  // CPU_DEVICE_WORKERS; else the processor's cores
    unsigned timeout = 60;                 // CPU_DEVICE_TIMEOUT, in seconds; 0: none
    Order order = Order::forward;          // CPU_DEVICE_ORDER: of blocks and threads
    unsigned long long seed = 0;           // ... =random:SEED
    bool blocking = false;                 // CUDA_LAUNCH_BLOCKING
    bool quiet = false;                    // CPU_DEVICE_QUIET: no banner
};

// Read once. A value that makes no sense ends the program.
const Settings& settings();

}  // namespace cpu_device
