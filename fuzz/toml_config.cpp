#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "binade/base/error.h"
#include "binade/train/config/keys.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// A text is refused, or it is a configuration that is saved and read again as the same one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace binade::train;
  Config config;
  try {
    config = resolve_text({reinterpret_cast<const char*>(data), size}, "input.toml");
  } catch (const binade::Error&) {
    return 0;
  }
  // Of the command line alone: not saved.
  if (config.run.resume || config.run.start_over || !config.run.allow_changes.empty() ||
      config.run.dry_run || config.run.time_limit != 0)
    return 0;
  if (resolve_text(to_toml(config), "again.toml") != config) std::abort();
  return 0;
}

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A line of a configuration: a known key with a value that may suit it, or a section.
std::string a_line(std::mt19937& draw) {
  constexpr const char* values[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "16",
                                    "1e300",
                                    "nan",
                                    "-inf",
                                    "0.5",
                                    "true",
                                    "\"\"",
                                    "\"fp8\"",
                                    "\"bf16\"",
                                    "\"llama\"",
                                    "\"cosine\"",
                                    "\"auto\"",
                                    "\"delayed\"",
                                    "\"delayed, history = 4, head = true, hidden = true\"",
                                    "'block, gradient.format = \"e4m3\", skip_first = 1'",
                                    "'mx, matmuls = [\"forward\"], exclude = [\"\"]'",
                                    "'input.format = \"e5m2\", weight.eps = 1e-300'",
                                    "\"\"\"base = 'row'\neps = 0.5\n[weight]\ngroup = [2, 0]\"\"\"",
                                    "\"a\\u0000\"",
                                    "\"\"\"x\"\"\"",
                                    "'x'",
                                    "[1, 2]",
                                    "[]",
                                    "[\"embedding\", 'blocks.0'] # \xC3\xA9",
                                    "[\n  'q_proj', # \xC3\xA9\n  \"\xC3\xA9]\",\n]",
                                    "['a', 1, \"\xC3\xA9\"]",
                                    "[[\"\xC3\xA9\"]]",
                                    "['']",
                                    "['\\', \"\\\"\xC3\xA9\"]",
                                    "{a = 1}",
                                    "1979-05-27",
                                    "9223372036854775807",
                                    "0x10",
                                    "1_000",
                                    "\"\xC3\xA9\""};
  constexpr const char* others[] = {"[data]",
                                    "[model]",
                                    "[precision]",
                                    "[train]",
                                    "[run]",
                                    "[[precision.override]]",
                                    "module = \"blocks.0\"",
                                    "recipe = \"none\"",
                                    "recipe = \"margin = 1\"",
                                    "fp8 = false",
                                    "fp8_scaling = \"mx\"",
                                    "fp8_history = 4",
                                    "fp8_hidden = true",
                                    "run = \"f32\"",
                                    "op = \"softmax\"",
                                    "# a comment",
                                    "[a.b.c]",
                                    "a.b.c = 1",
                                    "\"quoted key\" = 1"};
  const auto keys = binade::train::keys();
  if (draw() % 4 == 0) return others[draw() % std::size(others)];
  const binade::train::Key& key = keys[draw() % keys.size()];
  return std::string(key.name) + " = " + values[draw() % std::size(values)];
}

}  // namespace

// Changes lines: TOML stays TOML, and keys stay keys.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::mt19937 draw(seed);
  if (draw() % 6 == 0) return LLVMFuzzerMutate(data, size, max_size);
  auto lines = lines_of({reinterpret_cast<const char*>(data), size});
  for (uint32_t i = 0, count = 1 + draw() % 3; i < count; ++i) {
    const size_t at = lines.empty() ? 0 : draw() % lines.size();
    switch (lines.empty() ? 0 : draw() % 4) {
      case 0:
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), a_line(draw));
        break;
      case 1:
        lines[at] = a_line(draw);
        break;
      case 2:
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      default:
        std::swap(lines[at], lines[draw() % lines.size()]);
        break;
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const size_t length = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), length);
  return length;
}
