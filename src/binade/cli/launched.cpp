#include "binade/cli/launched.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "binade/base/process.h"

namespace binade::cli {
namespace {

bool has_ancestor(pid_t ancestor) {
  pid_t pid = ::getppid();
  while (pid > 1 && pid != ancestor) pid = process::parent_of(pid);
  return pid == ancestor || pid == 0;  // 0: there is no /proc to ask
}

}  // namespace

void end_with_launcher() {
  const char* launcher = std::getenv(launcher_variable);
  if (launcher == nullptr) return;
  // mpirun has the same arrangement with the launcher.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have ended before that call.
  if (!has_ancestor(static_cast<pid_t>(std::atol(launcher)))) ::_exit(128 + SIGKILL);
}

bool is_launched() { return std::getenv(launcher_variable) != nullptr; }

bool tell_launcher(int exit_code) {
  const char* path = std::getenv(exit_code_variable);
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const std::string text = std::to_string(exit_code);
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  return written;
}

}  // namespace binade::cli
