#include "binade/cli/rank_starter.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "binade/base/error.h"
#include "binade/ranks/tcp/socket.h"

namespace binade::cli {
namespace {

constexpr time_t seconds_to_end = 5;  // a rank that failed ends the others, unless they hang

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// One that is free now; rank 0 listens at it soon.
int free_port() {
  std::string why;
  const ranks::tcp::Socket socket = ranks::tcp::listen_at("127.0.0.1", 0, why);
  if (!socket.is_open()) fail("launch", {.argument = "a port of 127.0.0.1", .found = why});
  return ranks::tcp::own_address(socket).port;
}

// Becomes a rank. Signals are those of the run itself again.
[[noreturn]] void become_rank(int rank, const std::vector<char*>& argv, const sigset_t& mask) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(argv[0], argv.data());
  std::fprintf(stderr, "binade: launch: %s: %s\n", argv[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace

int run_ranks(int ranks, const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string size = std::to_string(ranks), port = std::to_string(free_port());
  ::setenv("WORLD_SIZE", size.c_str(), 1);
  ::setenv("LOCAL_WORLD_SIZE", size.c_str(), 1);
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", port.c_str(), 1);
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  sigset_t children, previous;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, &previous);
  std::vector<pid_t> running;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) become_rank(rank, argv, previous);
    if (child < 0) {
      for (const pid_t one : running) ::kill(one, SIGKILL);
      fail("launch", {.argument = "fork", .found = std::strerror(errno)});
    }
    running.push_back(child);
  }
  int result = 0;
  for (time_t deadline = 0; !running.empty();) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, result == 0 ? 0 : WNOHANG);
    if (ended > 0) {
      std::erase(running, ended);
      if (result == 0 && exit_code(status) != 0) {
        result = exit_code(status);
        deadline = std::time(nullptr) + seconds_to_end;
      }
    } else if (ended == 0) {
      const timespec moment{.tv_sec = 0, .tv_nsec = 100'000'000};
      ::sigtimedwait(&children, nullptr, &moment);
      if (std::time(nullptr) < deadline) continue;
      for (const pid_t one : running) ::kill(one, SIGKILL);
    }
  }
  return result;
}

}  // namespace binade::cli
