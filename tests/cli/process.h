#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace binade::cli {

// A program that runs beside the test; killed at the latest with its Process.
class Process {
 public:
  // Its standard output and error go to `output`.
  explicit Process(const std::vector<std::string>& arguments,
                   const std::filesystem::path& output = "/dev/null");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running();
  // Waits for its end. Returns the exit code, or 128 + the signal that ended it.
  int wait();
  void send(int signal) const;
  // Stops it until SIGCONT is sent; returns when none of its threads runs any more.
  void stop();
  void kill();
  bool was_killed() const;
  pid_t pid() const { return pid_; }

 private:
  void finish();

  pid_t pid_;
  int raw_ = 0;
  int status_ = -1;
};

}  // namespace binade::cli
