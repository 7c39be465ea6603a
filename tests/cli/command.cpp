#include "cli/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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

}  // namespace binade::cli
