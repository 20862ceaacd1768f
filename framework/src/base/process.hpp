// SPDX-License-Identifier: Apache-2.0
// Other programs, started by one that has no MPI running (a process with MPI must not fork).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Runs a program to its end. words: its name, looked for in PATH unless it has a '/', and its
// arguments. All it prints goes to the file `output`, which is made anew. Returns its exit code, or
// 128 plus the signal that ended it. SIGTERM, SIGHUP, SIGINT and SIGUSR1 are passed on to it
// meanwhile. One at a time a process. EnvironmentError where it cannot be started.
int run_program(const std::vector<std::string>& words, const std::filesystem::path& output);

// The file of this program.
std::string own_program();

}  // namespace trireme
