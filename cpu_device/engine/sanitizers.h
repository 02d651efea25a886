// What AddressSanitizer and ThreadSanitizer have to be told. In a plain build nothing of this is
// left.
//
// The engine itself is never compiled with a sanitizer: it acts on behalf of all CUDA threads, and
// its own accesses are not theirs.
#pragma once

#include <cstddef>

#if defined(CPU_DEVICE_ASAN) || defined(CPU_DEVICE_TSAN)
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

#ifdef CPU_DEVICE_ASAN
extern "C" {
void __sanitizer_print_stack_trace();
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                              void (*on_free)(const volatile void*));
void __sanitizer_start_switch_fiber(void** save, const void* low, size_t size);
void __sanitizer_finish_switch_fiber(void* saved, const void** old_low, size_t* old_size);
void __asan_poison_memory_region(const volatile void* memory, size_t size);
void __asan_unpoison_memory_region(const volatile void* memory, size_t size);
const char* __asan_locate_address(void* address, char* name, size_t name_size,
                                  void** region, size_t* region_size);
void* __asan_get_report_address();
void* __asan_region_is_poisoned(void* memory, size_t size);
void __asan_storeN(void* memory, size_t size);
void __asan_set_error_report_callback(void (*callback)(const char* report));
}
#endif

#ifdef CPU_DEVICE_TSAN
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* token);
void __tsan_release(void* token);
void __tsan_mutex_destroy(void* token, unsigned flags);
}
#endif

namespace cpu_device {

#ifdef CPU_DEVICE_ASAN
constexpr bool asan = true;
inline void poison(const void* memory, size_t size) { __asan_poison_memory_region(memory, size); }
inline void unpoison(const void* memory, size_t size)
{
    __asan_unpoison_memory_region(memory, size);
}

// Also for what is no address at all
inline bool is_poisoned(const void* memory)
{
    return __asan_region_is_poisoned(const_cast<void*>(memory), 1);
}

// Before the engine writes where a program's pointer says: AddressSanitizer reports it, with the
// program's line, if that is no place for the host to write.
inline void will_write(void* memory, size_t size) { __asan_storeN(memory, size); }

#else
constexpr bool asan = false;
inline void will_write(void*, size_t) {}
inline bool is_poisoned(const void*) { return false; }
inline void poison(const void*, size_t) {}
inline void unpoison(const void*, size_t) {}
#endif

// What a CUDA thread does before a release happens before what another does after the matching
// acquire. These are the only orderings between CUDA threads that ThreadSanitizer is told of. A
// token that another block has used must be forgotten first.
#ifdef CPU_DEVICE_TSAN
constexpr bool tsan = true;
inline void release(void* token) { __tsan_release(token); }
inline void acquire(void* token) { __tsan_acquire(token); }
inline void forget(void* token) { __tsan_mutex_destroy(token, 0); }
#else
constexpr bool tsan = false;
inline void release(void*) {}
inline void acquire(void*) {}
inline void forget(void*) {}
#endif

}  // namespace cpu_device
