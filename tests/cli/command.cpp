#include "cli/command.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace binade::cli {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

Outcome run_shell(const std::string& line) {
  const std::string base =
      (std::filesystem::temp_directory_path() / ("binade_cli_test." + std::to_string(getpid())))
          .string();
  const std::string out = base + ".out", err = base + ".err";
  const int raw = std::system(("( " + line + " ) >" + quoted(out) + " 2>" + quoted(err)).c_str());
  Outcome outcome{WIFEXITED(raw) ? WEXITSTATUS(raw) : -1, read_file(out), read_file(err)};
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return outcome;
}

Outcome binade(const std::string& arguments) {
  return run_shell(quoted(BINADE_EXECUTABLE) + " " + arguments);
}

Outcome binade_on_terminal(const std::string& arguments, int columns,
                           const std::string& environment) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return {};
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  ::ioctl(master, TIOCSWINSZ, &size);
  const std::string name = ::ptsname(master);
  const int slave = ::open(name.c_str(), O_RDWR | O_NOCTTY);  // while open, reads do not end
  std::string text;
  std::thread reader([master, &text] {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(master, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(n));
  });
  Outcome outcome = run_shell("TERM=xterm NO_COLOR= " + environment + " " +
                              quoted(BINADE_EXECUTABLE) + " " + arguments + " >" + name + " 2>&1");
  ::close(slave);
  reader.join();
  ::close(master);
  outcome.out = text;
  return outcome;
}

}  // namespace binade::cli
