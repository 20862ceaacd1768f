// SPDX-License-Identifier: Apache-2.0
// Stacks of this process's threads, in words: for whoever wants to know where a rank stands or has
// crashed. Functions have their names where the program was linked with its symbols exported
// (CMake: ENABLE_EXPORTS); others stand as FILE+OFFSET, which addr2line -e FILE OFFSET resolves.
#pragma once

#include <pthread.h>

#include <string>

namespace trireme {

// For the life of the process: a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) is told on stderr
// with `who` ("rank 2 (host3)"), the signal and the stack, and ends the process by that signal as
// before. A stack that has overflowed can be told of on the calling thread only. To be called again
// when who is known better, or when another library may have taken these signals for itself.
void report_crashes(const std::string& who);

// The stack of another thread of this process, one line a frame, innermost first; one line that
// says so where it does not answer. By one thread at a time. The thread is interrupted by a signal
// (SIGRTMIN + 6), with SA_RESTART.
std::string stack_of(pthread_t thread);

}  // namespace trireme
