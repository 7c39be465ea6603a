#include "binade/base/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "binade/base/process.h"

namespace binade::terminal {

namespace {

// The stream of that number of the nearest ancestor that has another one than this process: of
// mpirun, below shells that it may have started. -1 if that is no terminal.
int open_relaying_terminal(int stream) {
  struct stat own = {}, above = {};
  ::fstat(stream, &own);
  pid_t pid = ::getppid();
  std::string path;
  do {
    path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(stream);
    // Anything else must not be opened: a pipe would get a second reader.
    if (pid <= 1 || ::stat(path.c_str(), &above) != 0 || !S_ISCHR(above.st_mode)) return -1;
    pid = process::parent_of(pid);
  } while (above.st_rdev == own.st_rdev && above.st_ino == own.st_ino);
  return ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

// The terminal that a stream's output arrives on; a descriptor that may not be one.
int terminal_of(std::FILE* stream) {
  const int own = ::fileno(stream);
  const bool relayed = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr && ::isatty(own) != 0;
  if (!relayed) return own;
  // Open until the end, since the terminal may change its size.
  static const int output = open_relaying_terminal(STDOUT_FILENO),
                   errors = open_relaying_terminal(STDERR_FILENO);
  return own == STDERR_FILENO ? errors : output;
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(terminal_of(stream)) != 0; }

int width(std::FILE* stream) {
  winsize size = {};
  return ::ioctl(terminal_of(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool has_color(bool is_terminal, const char* no_color, const char* term) {
  const bool refused = no_color != nullptr && *no_color != '\0';
  return is_terminal && !refused && term != nullptr && std::string_view(term) != "dumb";
}

bool has_color(std::FILE* stream) {
  return has_color(is_terminal(stream), std::getenv("NO_COLOR"), std::getenv("TERM"));
}

std::string styled(std::string_view text, Style style, bool color) {
  constexpr const char* codes[] = {"1", "2", "31", "32", "33"};  // in the order of Style
  if (!color) return std::string(text);
  return std::string("\x1b[") + codes[static_cast<size_t>(style)] + "m" + std::string(text) +
         "\x1b[0m";
}

void print_warning(const std::string& text) {
  const std::string label = styled("warning:", Style::yellow, has_color(stderr));
  std::fputs(fmt::format("binade: {} {}\n", label, text).c_str(), stderr);
}

}  // namespace binade::terminal
