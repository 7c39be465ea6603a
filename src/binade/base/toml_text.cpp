#include "binade/base/toml_text.h"

#include <algorithm>

#include "binade/base/json.h"

namespace binade {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// The first of `stops` or non-ASCII byte from `at` on; the text's size if there is none.
size_t ascii_until(std::string_view stops, std::string_view toml, size_t at) {
  while (at < toml.size() && static_cast<unsigned char>(toml[at]) < 128 &&
         stops.find(toml[at]) == stops.npos)
    ++at;
  return at;
}

// The closing quote of the string that starts at `at`, or the end of its line.
size_t closing_quote(std::string_view toml, size_t at) {
  const char quote = toml[at++];
  while (at < toml.size() && toml[at] != quote && toml[at] != '\n')
    at += toml[at] == '\\' && quote == '"' ? 2 : 1;
  return std::min(at, toml.size());
}

// The position after the string that starts at `at`, or the end of its line.
size_t past_string(std::string_view toml, size_t at) {
  const size_t end = closing_quote(toml, at);
  return end + (toml.substr(end).starts_with(toml[at]) ? 1 : 0);
}

// The position after the array of strings, or of bare values, that starts at `at`; the first byte
// that does not belong to such an array if it is another one.
size_t past_flat_array(std::string_view toml, size_t at) {
  constexpr std::string_view bare =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-._";
  bool strings = true;
  for (++at; at < toml.size();) {
    const std::string_view rest = toml.substr(at);
    if (rest.starts_with(']')) return at + 1;
    if (rest.starts_with('#')) {
      at = std::min(toml.find('\n', at), toml.size());
    } else if (strings && (rest.starts_with('"') || rest.starts_with('\''))) {
      if (rest.starts_with("\"\"\"") || rest.starts_with("'''")) return at;
      at = closing_quote(toml, at);
      if (!toml.substr(at).starts_with(rest.front())) return at;
      ++at;
    } else if (bare.find(rest.front()) != bare.npos) {
      strings = false;
      ++at;
    } else if (std::string_view(", \t\r\n").find(rest.front()) != std::string_view::npos) {
      ++at;
    } else {
      return at;
    }
  }
  return at;
}

// The comment or line end after the value that starts at `at`.
size_t past_value(std::string_view toml, size_t at) {
  const std::string_view value = toml.substr(at);
  if (value.starts_with('[')) {
    at = past_flat_array(toml, at);
    return ascii_until(toml[at - 1] == ']' ? "#\n" : "", toml, at);
  }
  if (value.starts_with("\"\"\"") || value.starts_with("'''") || value.starts_with('{'))
    return ascii_until("", toml, at);
  if (value.starts_with('"') || value.starts_with('\'')) at = past_string(toml, at);
  return ascii_until("#\n", toml, at);
}

}  // namespace

size_t misplaced_character(std::string_view toml) {
  size_t at = toml.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  while (at < toml.size()) {
    at = ascii_until("=#'\"\n", toml, at);
    const std::string_view rest = toml.substr(at);
    if (rest.starts_with('=')) {
      at = past_value(toml, std::min(toml.find_first_not_of(" \t", at + 1), toml.size()));
    } else if (rest.starts_with('"') || rest.starts_with('\'')) {
      at = ascii_until("\n", toml, at);  // a quoted key
    }
    if (toml.substr(at).starts_with('#')) at = std::min(toml.find('\n', at), toml.size());
    if (!toml.substr(at).starts_with('\n')) return at;
    ++at;
  }
  return at;
}

size_t overlong_key(std::string_view toml) {
  size_t line = 0, dots = 0;
  for (size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = past_string(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '\n') {
      dots = 0;
      line = at + 1;
    } else if (c == '.' && ++dots >= max_key_parts) {
      return line;
    }
    ++at;
  }
  return toml.size();
}

std::string toml_string(std::string_view text) {
  return json::Writer().value(text).text();  // TOML has JSON's escapes
}

}  // namespace binade
