#include "binade/train/run/restore_files.h"

#include <fmt/format.h>

#include "binade/base/error.h"
#include "binade/data/tokenizer.h"
#include "binade/io/file.h"
#include "binade/io/manifest.h"
#include "binade/train/config/config.h"
#include "binade/train/config/precision_plan.h"

namespace binade::train {
namespace {

constexpr const char* restorer = "train";
constexpr int64_t max_restored = int64_t{64} << 20;

bool holds(const io::Path& file, std::string_view content) {
  try {
    return io::read_text(file, restorer, max_restored) == content;
  } catch (const Error&) {
    return false;
  }
}

bool is_configuration(const io::Path& file) {
  try {
    resolve({.file = file, .options = {}});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool set_damaged_aside(const io::Path& folder, std::string_view tokenizer,
                       const io::CompanionFiles& companions) {
  bool damaged = false;
  const auto set_aside = [&damaged](const io::Path& file) {
    damaged = true;
    if (file.exists()) io::set_aside(file, restorer);
  };
  // First: config.toml cannot be read without its tokenizer.
  const io::Path config = folder / "config.toml";
  const bool readable = is_configuration(config);
  const io::Path own = folder / data::tokenizer_file(tokenizer);
  const bool same_tokenizer = tokenizer.empty() || holds(own, tokenizer);
  if (!same_tokenizer) set_aside(own);
  for (const auto& [name, content] : companions) {
    if (!holds(folder / name, content)) set_aside(folder / name);
  }
  if (!readable && same_tokenizer) set_aside(config);
  return damaged;
}

std::vector<std::string> restore_plan(const io::Path& folder, const io::Path& checkpoint) {
  const io::Path own = folder / precision_plan_file, copy = checkpoint / precision_plan_file;
  std::vector<std::string> warnings;
  try {
    if (own.exists()) read_precision_plan(own);
  } catch (const Error& error) {
    if (!copy.exists())
      fail(restorer, {.argument = own.string(),
                      .expected = "the precision of layers so far",
                      .found = error.what(),
                      .hint = "put the file back from a copy, or remove it: layers then begin in "
                              "the configured precision"});
    const io::Path aside = io::set_aside(own, restorer);
    warnings.push_back(fmt::format("{} is written anew from {} and now {}: {}", own.string(),
                                   copy.string(), aside.filename(), error.what()));
  }
  if (!copy.exists()) return warnings;
  if (!own.exists() && warnings.empty())
    warnings.push_back(
        fmt::format("{} is missing: it is written anew from {}", own.string(), copy.string()));
  const std::string text = io::read_text(copy, restorer, max_restored);
  if (holds(own, text)) return warnings;
  io::AtomicFile file(own, restorer);
  file.append(text);
  file.commit();
  return warnings;
}

}  // namespace binade::train
