#include "binade/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace binade::terminal {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) != 0; }

int width(std::FILE* stream) {
  winsize size = {};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
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

}  // namespace binade::terminal
