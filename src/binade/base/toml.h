#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

// Some bad files fail assertions of toml++ that it would report as errors a few lines later.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/base/toml_text.h"

namespace binade {

// Who reads a TOML text, and what messages call the text: a file's name.
struct TomlSource {
  std::string_view reader;
  std::string name;
};

// Parses a TOML text. Fails, naming the line, for what is not TOML or what toml++ cannot be trusted
// with.
inline toml::table parse_toml(std::string_view text, const TomlSource& source) {
  const auto refuse = [&](size_t at, std::string expected, std::string found) {
    const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
    fail(source.reader, {.argument = fmt::format("{}, line {}", source.name, line),
                         .expected = std::move(expected),
                         .found = std::move(found)});
  };
  if (const size_t at = misplaced_character(text); at < text.size())
    refuse(at, "TOML in ASCII but for comments and strings on one line",
           fmt::format("byte 0x{:02x}", static_cast<unsigned char>(text[at])));
  if (const size_t at = overlong_key(text); at < text.size())
    refuse(at, fmt::format("keys of at most {} parts", max_key_parts), "a longer one");
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    constexpr size_t max_description = 240;
    fail(source.reader,
         {.argument = fmt::format("{}, line {}, column {}", source.name, at.line, at.column),
          .expected = "TOML",
          .found = shortened(error.description(), max_description)});
  }
}

}  // namespace binade
