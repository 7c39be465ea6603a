#include "cli/launched_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  const fs::path threads = "/proc/" + std::to_string(pid) + "/task";
  for (fs::directory_iterator at(threads, error), end; !error && at != end; at.increment(error)) {
    std::ifstream file(at->path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

}  // namespace

std::string missing_for_mpirun() {
  if (nlohmann::json::parse(binade("info --json").out).at("mpi") == "")
    return "this build has no MPI";
  return run_shell("command -v mpirun").status == 0 ? "" : "there is no mpirun";
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> all;
  for (const pid_t child : children_of(pid)) {
    all.push_back(child);
    for (const pid_t one : descendants_of(child)) all.push_back(one);
  }
  return all;
}

bool has_ended(pid_t pid) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (handle < 0) return true;
  pollfd event{.fd = handle, .events = POLLIN, .revents = 0};
  const bool ended = ::poll(&event, 1, 60'000) == 1;
  ::close(handle);
  return ended;
}

LaunchedRun::LaunchedRun(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::setenv("BINADE_THREADS", "1", 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
  ::close(ends[1]);
  stream_ = ::fdopen(ends[0], "r");
}

LaunchedRun::~LaunchedRun() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  if (stream_ != nullptr) std::fclose(stream_);
}

bool LaunchedRun::read_line(std::string& line) {
  line.clear();
  for (int c = 0; (c = std::fgetc(stream_)) != EOF;) {
    line += static_cast<char>(c);
    if (c == '\n') break;
  }
  output_ += line;
  return !line.empty();
}

bool LaunchedRun::wait_for(const std::string& text) {
  for (std::string line; read_line(line);) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

int LaunchedRun::wait() {
  for (std::string line; read_line(line);) {
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ended_ = true;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t LaunchedRun::mpirun() const {
  for (;;) {
    if (const std::vector<pid_t> children = children_of(pid_); !children.empty())
      return children[0];
    std::this_thread::yield();
  }
}

std::vector<pid_t> LaunchedRun::ranks(size_t count) const {
  for (const pid_t above = mpirun();;) {
    const std::vector<pid_t> children = children_of(above);
    if (children.size() == count || !fs::exists("/proc/" + std::to_string(above))) return children;
    std::this_thread::yield();
  }
}

}  // namespace binade::cli
