#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/data/chat/jinja/value.h"

// Chat templates: the part of the Jinja language that published ones use, with jinja2's results in
// the sandbox of transformers. Templates and values are not trusted: steps, texts and nesting are
// limited, nothing outside of the values can be reached, and nothing is changed.
namespace binade::data::jinja {

inline constexpr size_t max_source = 1 << 20;  // bytes

struct Parsed;

struct Rendered {
  std::string text = {};
  std::vector<std::pair<size_t, size_t>> generated = {};  // bytes of {% generation %} blocks
};

class Template {
 public:
  // Parses a template. Errors, also those of render(), name `file` and the line.
  Template(std::string_view source, std::string file);
  ~Template();

  using Variables = std::vector<std::pair<std::string, Value>>;
  // `now` is the time of strftime_now(). May be called from several threads.
  Rendered render(const Variables& variables, const std::tm& now) const;

  bool has_generation() const;
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace binade::data::jinja
