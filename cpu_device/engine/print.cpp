// printf in kernels. The program's calls of printf, which a kernel's are as well, come here before
// they get to the C library. A kernel's output is kept until the host waits for the kernel, as on
// a GPU, and takes no lock that a kernel that faults would never give back.

#include "print.h"

#include "worker.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace cpu_device {
namespace {

constexpr size_t longest_line = 4096;

// ThreadSanitizer must know neither of the lock, which it would take for an order between the CUDA
// threads that print, nor, for want of an order, of the copying, so memcpy will not do.
class Prints {
public:
    void add(const char* text, size_t length)
    {
        while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {
        }
        if (used + length > sizeof buffer)
            write_out();
        for (volatile char* to = buffer + used; to < buffer + used + length; ++to)
            *to = *text++;
        used += length;
        __atomic_clear(&busy, __ATOMIC_RELEASE);
    }

    void write_out()
    {
        if (used)
            std::fwrite(buffer, 1, used, stdout);
        used = 0;
    }

    // Unless a thread is at it
    void try_to_write_out()
    {
        if (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE))
            return;
        write_out();
        __atomic_clear(&busy, __ATOMIC_RELEASE);
    }

private:
    bool busy = false;
    size_t used = 0;
    char buffer[1 << 20];                  // a GPU's has this size as well
};

Prints* made = nullptr;

Prints& prints()
{
    static Prints& only = *(made = new Prints);
    return only;
}

// What printf in a kernel returns
int arguments_of(const char* format)
{
    int count = 0;
    while ((format = std::strchr(format, '%'))) {
        const size_t flags = std::strspn(++format, "-+ #0123456789.*");
        for (const char* star = format; star < format + flags; ++star)
            count += *star == '*';
        format += flags;
        count += *format != '%';
        format += *format != '\0';
    }
    return count;
}

int print(const char* format, va_list arguments)
{
    if (!in_kernel())
        return std::vprintf(format, arguments);
    if (!format)
        return -1;
    char text[longest_line];
    const int length = std::vsnprintf(text, sizeof text, format, arguments);
    if (length > 0)
        prints().add(text, std::min(size_t(length), sizeof text - 1));
    return arguments_of(format);
}

void print_whole(const char* text, size_t length)
{
    if (in_kernel())
        prints().add(text, length);
    else
        std::fwrite(text, 1, length, stdout);
}

}  // namespace

void flush_prints()
{
    prints().write_out();
}

void rescue_prints()
{
    if (ftrylockfile(stdout) != 0)
        return;
    if (made)
        made->try_to_write_out();
    std::fflush(stdout);
    funlockfile(stdout);
}

}  // namespace cpu_device

extern "C" {

int printf(const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = cpu_device::print(format, arguments);
    va_end(arguments);
    return length;
}

// What the C library's headers make of printf where they check it
int __printf_chk(int, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = cpu_device::print(format, arguments);
    va_end(arguments);
    return length;
}

// What compilers make of printf("line\n"), and of printf("c")
int puts(const char* line)
{
    cpu_device::print_whole(line, std::strlen(line));
    cpu_device::print_whole("\n", 1);
    return 1;
}

// (the C library's header has a body for putchar, hence another name for it here)
int print_character(int c) __asm__("putchar");
int print_character(int c)
{
    const char text = char(c);
    cpu_device::print_whole(&text, 1);
    return static_cast<unsigned char>(text);
}

}
