// Launching a kernel. cu2cpp writes `k<<<grid, block, shared, stream>>>(a, n)` as
// `cpu_device::kernel(k, "k").on(grid, block, shared, stream)(a, n)`: the order stays, and each
// argument is evaluated once, on the host, at the launch.
#pragma once

#include "engine.h"

#include <tuple>
#include <type_traits>
#include <utility>

namespace cpu_device {

template <class Function, class... Parameters>
class LaunchOf final : public Launch {
public:
    LaunchOf(Function function_, const Parameters&... arguments_)
        : function(function_), arguments(arguments_...)
    {
        unsigned number = 0;
        (note_pointer(++number, arguments_), ...);
#ifdef CPU_DEVICE_ASAN
        number = 0;
        std::apply([&](auto&... kept) { (note_structure(++number, kept), ...); }, arguments);
#endif
    }

    void run_threads() override
    {
        while (next_thread())
            call(std::index_sequence_for<Parameters...>());
    }

private:
    Function function;
    std::tuple<Parameters...> arguments;

    template <size_t... index>
    __attribute__((always_inline)) void call(std::index_sequence<index...>)
    {
        function(std::get<index>(arguments)...);
    }

    template <class Parameter>
    void note_pointer(unsigned number, Parameter argument)
    {
        if constexpr (std::is_pointer_v<Parameter> &&
                      !std::is_function_v<std::remove_pointer_t<Parameter>>) {
            if (argument && pointer_count < max_pointers)
                pointers[pointer_count++] = {
                    number, const_cast<const void*>(static_cast<const volatile void*>(argument))};
        } else {
            (void)number;
            (void)argument;
        }
    }

    template <class Parameter>
    void note_structure(unsigned number, const Parameter& argument)
    {
        if (std::is_class_v<Parameter> && structure_count < max_structures)
            structures[structure_count++] = {number, __builtin_addressof(argument),
                                             sizeof argument};
    }
};

// The kernel and what stands between <<< and >>>.
struct Configuration {
    const char* name;
    dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;

    template <class Function, class... Parameters>
    cudaError_t launch(Function function, const void* identity,
                       const Parameters&... arguments) const
    {
        Launch* const made = new LaunchOf<Function, Parameters...>(function, arguments...);
        made->name = name;
        made->function = identity;
        made->grid = grid;
        made->block = block;
        made->shared_bytes = shared_bytes;
        made->stream = stream;
        return submit(made);
    }
};

// A template kernel is wrapped in a generic lambda: its own argument types decide.
template <class Function>
class Kernel {
public:
    Kernel(Function function_, const char* name) : function(function_), configuration{name, {}, {}}
    {
    }

    Kernel& on(dim3 grid, dim3 block = 1, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
    {
        configuration = {configuration.name, grid, block, shared_bytes, stream};
        return *this;
    }

    template <class... Arguments>
    void operator()(Arguments... arguments) const
    {
        configuration.launch(function, nullptr, arguments...);
    }

private:
    Function function;
    Configuration configuration;
};

// A kernel that is not a template: the arguments are converted to its parameters here.
template <class... Parameters>
class Kernel<void (*)(Parameters...)> {
public:
    using Function = void (*)(Parameters...);

    Kernel(Function function_, const char* name) : function(function_), configuration{name, {}, {}}
    {
    }

    Kernel& on(dim3 grid, dim3 block = 1, size_t shared_bytes = 0, cudaStream_t stream = nullptr)
    {
        configuration = {configuration.name, grid, block, shared_bytes, stream};
        return *this;
    }

    void operator()(Parameters... arguments) const
    {
        if (!function) {
            report_error(cudaErrorInvalidDeviceFunction);
            return;
        }
        configuration.launch(function, reinterpret_cast<const void*>(function), arguments...);
    }

private:
    Function function;
    Configuration configuration;
};

template <class... Parameters>
Kernel<void (*)(Parameters...)> kernel(void (*function)(Parameters...), const char* name)
{
    return {function, name};
}

template <class Function>
Kernel<Function> kernel(Function function, const char* name)
{
    return {function, name};
}

} // namespace cpu_device
