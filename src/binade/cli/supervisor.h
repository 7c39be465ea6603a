#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"

namespace binade::cli {

// Runs what starts the ranks of `binade launch`, mpirun or a function. Signals to this process go
// to the ranks themselves, since mpirun would leave them one second to save a checkpoint; those of
// a terminal do not reach it. If this process dies, so do the ranks. One at a time.
class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Runs a program until it and everything it started have ended. Returns the exit code of the
  // run, as a shell reports it.
  int run(const std::vector<std::string>& words);
  // The same for a function, which runs in a process of its own and returns an exit code.
  int run(FunctionRef<int()> work);

  // SIGINT, SIGTERM or SIGHUP, if this process has got one; otherwise 0.
  int stop_signal();

 private:
  void start(FunctionRef<int()> work, int exit_code_file);
  int wait();
  void end_idle_launcher();
  void handle(int signal);

  sigset_t handled_ = {}, previous_ = {};
  pid_t child_ = 0;
  bool had_ranks_ = false;
  std::chrono::steady_clock::time_point last_with_ranks_;
  int stopped_by_ = 0;
};

}  // namespace binade::cli
