#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace binade::cli {

// Empty, or why mpirun cannot start ranks here.
std::string missing_for_mpirun();

// Processes that a process has started, those that they have started, and so on.
std::vector<pid_t> descendants_of(pid_t pid);

// Awaits the end of a process that is not a child of the test. False if it still runs a minute
// later.
bool has_ended(pid_t pid);

// A program in a process group of its own, whose output is read line by line while it runs. Killed
// at the latest with the object.
class LaunchedRun {
 public:
  explicit LaunchedRun(const std::vector<std::string>& words);
  ~LaunchedRun();
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  // Reads until a line with this text; false if the output ends before.
  bool wait_for(const std::string& text);
  // Reads the rest of the output and awaits the end. Returns the exit code, or 128 + the signal
  // that ended it.
  int wait();
  pid_t pid() const { return pid_; }
  // mpirun or what starts ranks in its place, and its ranks; awaits their start.
  pid_t mpirun() const;
  std::vector<pid_t> ranks(size_t count) const;
  // All that has been read.
  const std::string& output() const { return output_; }

 private:
  bool read_line(std::string& line);

  pid_t pid_ = 0;
  std::FILE* stream_ = nullptr;
  std::string output_;
  bool ended_ = false;
};

}  // namespace binade::cli
