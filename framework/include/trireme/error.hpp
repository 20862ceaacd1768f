// SPDX-License-Identifier: Apache-2.0
// Errors and exit codes. Library code throws; app/ alone decides how the process ends.
#pragma once

#include <stdexcept>
#include <string>

namespace trireme {

// Exit codes of `trainer`. They are API: scripts and schedulers read them.
enum class ExitCode : int {
  kOk = 0,
  kUsage = 2,          // command line or configuration
  kData = 3,           // a data set is missing, damaged or does not fit
  kCheckpoint = 4,     // a checkpoint or other file could not be read or written
  kNumerics = 5,       // loss or gradient is not finite
  kCommunication = 6,  // a rank, the network, the launcher or the environment
  kInternal = 70,      // a defect of Trireme
  kStopped = 75,       // stopped on request; `trainer resume` goes on
};

// What happened, where, what was expected, what to do: `what()` holds all of it, ready to print.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

// The user's configuration or command line. Messages start with file:line:column where there is a
// file.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

// A data set; the message names the file, and offset or sample where there is one.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

// A checkpoint, or a file of the run directory; the message names the path and errno.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message) : Error(ExitCode::kCheckpoint, message) {}
};

// Another rank or the network: lost, late, or of another build, configuration or model.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(ExitCode::kCommunication, message) {}
};

// The machine or the launcher: wrong mpirun, no such device, too few cores.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message)
      : Error(ExitCode::kCommunication, message) {}
};

// Thrown by TRIREME_ASSERT: the programmer's mistake, never the user's.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::kInternal, message) {}
};

[[noreturn]] void fail_assertion(const char* condition, const char* file, int line,
                                 const std::string& message);

}  // namespace trireme

#define TRIREME_ASSERT(condition, message)                                  \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::trireme::fail_assertion(#condition, __FILE__, __LINE__, (message)); \
    }                                                                       \
  } while (false)
