#include "binade/cli/supervisor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "binade/base/error.h"
#include "binade/base/process.h"
#include "binade/cli/commands.h"
#include "binade/cli/launched.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;

bool is_stop(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

// The processes that any thread of a process has started.
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

// The ranks below a launcher of MPI programs: the processes that started no other.
std::vector<pid_t> ranks_of(pid_t launcher) {
  std::vector<pid_t> ranks;
  for (const pid_t child : children_of(launcher)) {
    const std::vector<pid_t> below = ranks_of(child);
    if (below.empty()) ranks.push_back(child);
    ranks.insert(ranks.end(), below.begin(), below.end());
  }
  return ranks;
}

// Whether a process would survive a signal that ends those that are not prepared for it.
bool expects(pid_t pid, int signal) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("SigCgt:") && !line.starts_with("SigIgn:")) continue;
    const uint64_t mask = std::strtoull(line.c_str() + std::strlen("SigCgt:"), nullptr, 16);
    if (((mask >> (signal - 1)) & 1) != 0) return true;
  }
  return false;
}

// What ranks need to know of the launcher.
void tell_ranks(pid_t launcher, int exit_code_file) {
  const std::string pid = std::to_string(launcher);
  const std::string file = "/proc/" + pid + "/fd/" + std::to_string(exit_code_file);
  ::setenv(launcher_variable, pid.c_str(), 1);
  ::setenv(exit_code_variable, file.c_str(), 1);
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, before it becomes the program: only calls that are safe after fork().
void prepare_child(pid_t parent, const sigset_t& mask) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // it died before that call
  ::setpgid(0, 0);                                    // out of reach of Ctrl-C
  ::signal(SIGTTOU, SIG_IGN);                         // it may write to the terminal all the same
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);  // and must not read from it
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
}

// Ends and awaits what a dead mpirun has left behind: this process has inherited it.
void end_children() {
  for (const pid_t child : children_of(::getpid())) ::kill(child, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
}

}  // namespace

Supervisor::Supervisor() {
  sigemptyset(&handled_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP, SIGCONT, SIGCHLD}) {
    struct sigaction now = {};
    ::sigaction(signal, nullptr, &now);
    if (signal == SIGHUP && now.sa_handler == SIG_IGN) continue;  // by nohup
    ::signal(signal, SIG_DFL);  // shells start background jobs with SIGINT ignored
    sigaddset(&handled_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &handled_, &previous_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Supervisor::~Supervisor() { ::sigprocmask(SIG_SETMASK, &previous_, nullptr); }

int Supervisor::run(const std::vector<std::string>& words) {
  const std::vector<char*> argv = pointers_to(words);
  int errors[2];  // closed if the program starts, otherwise gets the reason
  if (::pipe2(errors, O_CLOEXEC) != 0)
    fail("launch", {.argument = "pipe", .found = std::strerror(errno)});
  const int status = run([&] {
    ::execvp(argv[0], argv.data());
    const int reason = errno;
    return ::write(errors[1], &reason, sizeof(reason)) < 0 ? 126 : 127;
  });
  ::close(errors[1]);
  int reason = 0;
  if (::read(errors[0], &reason, sizeof(reason)) <= 0) reason = 0;
  ::close(errors[0]);
  if (reason != 0)
    fail("launch", {.argument = words[0],
                    .expected = "a program on the PATH",
                    .found = std::strerror(reason),
                    .hint = "install openmpi-bin"});
  return status;
}

int Supervisor::run(FunctionRef<int()> work) {
  // A file without a name, so that nothing is left of it.
  const int file = ::memfd_create("exit code", MFD_CLOEXEC);
  start(work, file);
  const int status = wait();
  std::array<char, 16> told = {};
  const bool is_told = ::pread(file, told.data(), told.size() - 1, 0) > 0;
  ::close(file);
  if (is_told) return std::atoi(told.data());
  // mpirun ends with 1 if a signal came before its ranks.
  const bool stopped = stopped_by_ != 0 && (status == 1 || status > 128);
  return stopped ? 128 + stopped_by_ : status;
}

void Supervisor::start(FunctionRef<int()> work, int exit_code_file) {
  const pid_t self = ::getpid();
  child_ = ::fork();
  if (child_ < 0) fail("launch", {.argument = "fork", .found = std::strerror(errno)});
  if (child_ > 0) return;
  prepare_child(self, previous_);
  tell_ranks(self, exit_code_file);
  int status = bad_input;
  try {
    status = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "binade: %s\n", error.what());
  }
  ::_exit(status);
}

int Supervisor::wait() {
  had_ranks_ = false;
  constexpr timespec moment{.tv_sec = 0, .tv_nsec = 50'000'000}, second{.tv_sec = 1, .tv_nsec = 0};
  for (int status = 0;;) {
    const int signal = ::sigtimedwait(&handled_, nullptr, had_ranks_ ? &second : &moment);
    if (signal < 0) {
      if (errno == EAGAIN) end_idle_launcher();
    } else if (signal != SIGCHLD) {
      handle(signal);
    } else if (::waitpid(child_, &status, WNOHANG) == child_) {
      child_ = 0;
      end_children();
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
}

// Open MPI's launcher may lock itself up when it ends after its ranks (PMIx_server_finalize, seen
// in 4.1.4 after a rank was killed). It has nothing left to do then.
void Supervisor::end_idle_launcher() {
  constexpr std::chrono::seconds patience{10};
  const std::vector<pid_t> ranks = ranks_of(child_);
  const auto now = std::chrono::steady_clock::now();
  if (!std::all_of(ranks.begin(), ranks.end(), process::has_ended)) {
    had_ranks_ = true;
    last_with_ranks_ = now;
  } else if (had_ranks_ && now - last_with_ranks_ >= patience) {
    ::kill(child_, SIGKILL);
  }
}

void Supervisor::handle(int signal) {
  if (is_stop(signal)) stopped_by_ = signal;
  const std::vector<pid_t> ranks = child_ > 0 ? ranks_of(child_) : std::vector<pid_t>();
  for (const pid_t rank : ranks) {
    // A rank that has just been started has nothing to save yet.
    if (signal == SIGUSR1 && !expects(rank, signal)) continue;
    ::kill(rank, signal == SIGTSTP ? SIGSTOP : signal);
  }
  if (ranks.empty() && child_ > 0 && is_stop(signal)) ::kill(child_, signal);
  if (signal == SIGTSTP) ::raise(SIGSTOP);  // until SIGCONT, which the ranks then get, too
}

int Supervisor::stop_signal() {
  for (const timespec now = {}; true;) {
    const int signal = ::sigtimedwait(&handled_, nullptr, &now);
    if (signal < 0) return stopped_by_;
    handle(signal);
  }
}

}  // namespace binade::cli
