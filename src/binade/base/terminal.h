#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

// Output streams that may be a terminal.
namespace binade::terminal {

// Whether what is written to a stream arrives on a terminal. mpirun gives its processes a
// pseudo-terminal whatever it passes their output on to: then its own stream decides.
bool is_terminal(std::FILE* stream);

// Columns of the terminal, now; 80 if they are unknown.
int width(std::FILE* stream);

// Columns that an updating line leaves free: Ctrl-C shows as "^C" behind it and must not wrap it.
inline constexpr int free_columns = 2;

// Whether to color what is written to a stream: on a terminal, unless the environment has a
// non-empty NO_COLOR (no-color.org) or TERM=dumb.
bool has_color(std::FILE* stream);
// has_color() from its parts; the variables are null if unset.
bool has_color(bool is_terminal, const char* no_color, const char* term);

enum class Style : uint8_t { bold, dim, red, green, yellow };

// The text with the escape sequences of a style; unchanged without color.
std::string styled(std::string_view text, Style style, bool color);

// Returns to the start of a line, and clears what is left of it.
inline constexpr const char* line_start = "\r";
inline constexpr const char* clear_line = "\x1b[K";

// "binade: warning: TEXT" on stderr, which may be closed.
void print_warning(const std::string& text);

}  // namespace binade::terminal
