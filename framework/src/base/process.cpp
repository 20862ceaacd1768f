// SPDX-License-Identifier: Apache-2.0
#include "base/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/files.hpp"
#include "trireme/error.hpp"

extern char** environ;

namespace trireme {
namespace {

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::atomic<pid_t> receiver{0};  // a handler can reach nothing but static storage

extern "C" void pass_on(int signal) {
  const int saved = errno;
  if (const pid_t child = receiver.load(); child > 0) ::kill(child, signal);
  errno = saved;
}

// While it lives, signals that ask this process to end go to the child, which is waited for.
class PassSignalsOn {
 public:
  explicit PassSignalsOn(pid_t child) {
    receiver.store(child);
    struct sigaction action {};
    action.sa_handler = pass_on;
    for (std::size_t i = 0; i < kPassed.size(); ++i) sigaction(kPassed[i], &action, &before_[i]);
  }
  ~PassSignalsOn() {
    for (std::size_t i = 0; i < kPassed.size(); ++i) sigaction(kPassed[i], &before_[i], nullptr);
    receiver.store(0);
  }
  PassSignalsOn(const PassSignalsOn&) = delete;
  PassSignalsOn& operator=(const PassSignalsOn&) = delete;

 private:
  static constexpr std::array kPassed{SIGTERM, SIGHUP, SIGINT, SIGUSR1};
  std::array<struct sigaction, kPassed.size()> before_{};
};

void require(int error, const std::string& what) {
  if (error != 0) throw EnvironmentError("cannot start " + what + ": " + describe_errno(error));
}

}  // namespace

int run_program(const std::vector<std::string>& words, const std::filesystem::path& output) {
  constexpr mode_t kMode = 0644;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  SpawnActions actions;
  require(posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0),
          words.front());
  require(posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, output.c_str(),
                                           O_WRONLY | O_CREAT | O_TRUNC, kMode),
          words.front());
  require(posix_spawn_file_actions_adddup2(actions.get(), STDOUT_FILENO, STDERR_FILENO),
          words.front());
  pid_t child = 0;
  require(
      posix_spawnp(&child, arguments.front(), actions.get(), nullptr, arguments.data(), environ),
      words.front());
  int status = 0;
  const PassSignalsOn pass_on(child);
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) require(errno, words.front());
  }
  constexpr int kSignalled = 128;
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace trireme
