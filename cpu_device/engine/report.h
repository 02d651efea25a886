// What the CPU device has to say, on standard error, a line at a time.
#pragma once

#include "worker.h"

#include <string>

namespace cpu_device {

// "cpu device: ..."; safe in a signal handler.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The CPU device itself cannot go on.
[[noreturn]] void die(const char* format, ...) __attribute__((format(printf, 1, 2)));

// "vector_add, block (0,0,0), thread (5,0,0)"
struct Place {
    char text[256];
};
Place where(const Worker& w);
Place where_block(const Worker& w);

// A linker's name as it stands in the source: "_Z3addIiEvPT_" -> "void add<int>(int*)"
std::string demangled(const char* name);

// True for the first error of a launch, the one to speak of.
bool claim_error(Worker& w, cudaError_t error);

void report_early_return(const Worker& w);
void report_two_barriers(const Worker& w, unsigned line);

// Threads wait, and nobody can wake them. Gives the launch's error.
cudaError_t report_stuck(Worker& w);

}  // namespace cpu_device
