// Launching a kernel. cu2cpp writes `k<<<grid, block, shared, stream>>>(a, n)` as
// `cpu_device::kernel(k, "k").on(grid, block, shared, stream)(a, n)`: the order stays, and each
// argument is evaluated once, on the host, at the launch.
#pragma once

#include "engine.h"

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cpu_device {

// What a launch keeps of an argument, and how each thread gets it: as a rule a copy.
template <class Parameter>
class Copied {
public:
    using Passed = Parameter;

    explicit Copied(const Parameter& argument) : kept(argument) {}
    Passed pass() const { return kept; }
    const Parameter& get() const { return kept; }

private:
    const Parameter kept;
};

// Of a reference its address: the kernel uses the very object, as it does on a GPU, which can if the
// object is managed.
template <class Reference>
class Referred {
public:
    using Object = std::remove_reference_t<Reference>;
    using Passed = Reference;

    explicit Referred(Object& argument) : address(__builtin_addressof(argument)) {}
    Passed pass() const { return static_cast<Reference>(*address); }
    const Object* get() const { return address; }

private:
    Object* const address;
};

// Whether a function gets a class by its address, since to copy or to end it is a function too.
// (Itanium C++ ABI, "non-trivial for the purposes of calls".)
template <class Parameter>
constexpr bool is_passed_by_address =
    !std::is_trivially_destructible_v<Parameter> ||
    (std::is_copy_constructible_v<Parameter> &&
     !std::is_trivially_copy_constructible_v<Parameter>) ||
    (std::is_move_constructible_v<Parameter> &&
     !std::is_trivially_move_constructible_v<Parameter>);

// Such a class is copied once, on the host, when the kernel is called. From there its bytes go to
// the threads, and none of them calls a constructor or a destructor.
template <class Class>
class Bytewise {
    struct Bytes {
        alignas(Class) unsigned char bytes[sizeof(Class)];

        operator void*() { return bytes; }
    };

public:
    using Passed = void*;

    explicit Bytewise(const Class& argument)
    {
        std::memcpy(kept.bytes, __builtin_addressof(argument), sizeof(Class));
    }

    Bytes pass() const { return kept; }
    const Class& get() const { return reinterpret_cast<const Class&>(kept.bytes); }

private:
    Bytes kept;
};

// A template is called through a lambda, which has copies for parameters.
template <class Function, class Parameter>
using Argument = std::conditional_t<
    !std::is_pointer_v<Function>, Copied<Parameter>,
    std::conditional_t<
        std::is_reference_v<Parameter>, Referred<Parameter>,
        std::conditional_t<is_passed_by_address<Parameter>, Bytewise<Parameter>,
                           Copied<Parameter>>>>;

template <class Function, class... Parameters>
class LaunchOf final : public Launch {
public:
    template <class... Arguments>
    explicit LaunchOf(Function function_, Arguments&... arguments_)
        : function(function_), arguments(arguments_...)
    {
        unsigned number = 0;
        std::apply([&](auto&... kept) { (note_pointer(++number, kept.get()), ...); }, arguments);
#ifdef CPU_DEVICE_ASAN
        number = 0;
        std::apply([&](auto&... kept) { (note_structure(++number, kept.get()), ...); }, arguments);
#endif
    }

    void run_threads() override
    {
        while (next_thread())
            call(std::index_sequence_for<Parameters...>());
    }

private:
    Function function;
    std::tuple<Argument<Function, Parameters>...> arguments;

    template <size_t... index>
    __attribute__((always_inline, no_sanitize("undefined"))) void
    call(std::index_sequence<index...>)
    {
        if constexpr ((std::is_same_v<typename Argument<Function, Parameters>::Passed,
                                      Parameters> && ...))
            function(std::get<index>(arguments).pass()...);
        else
            reinterpret_cast<void (*)(typename Argument<Function, Parameters>::Passed...)>(
                function)(std::get<index>(arguments).pass()...);
    }

    template <class Parameter>
    void note_pointer(unsigned number, const Parameter& argument)
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
        // Not where each thread makes a copy, which uses what the host has
        if (std::is_class_v<Parameter> &&
            (std::is_pointer_v<Function> || !is_passed_by_address<Parameter>) &&
            structure_count < max_structures)
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

    template <class... Parameters, class Function>
    cudaError_t launch(Function function, const void* identity, Parameters&... arguments) const
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
        configuration.launch<Arguments...>(function, nullptr, arguments...);
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
        configuration.launch<Parameters...>(
            function, reinterpret_cast<const void*>(function), arguments...);
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
