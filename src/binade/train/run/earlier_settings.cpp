#include "binade/train/run/earlier_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "binade/io/file.h"

namespace binade::train {
namespace {

constexpr std::string_view before_step = "config-to-step-", after_step = ".toml";
constexpr int64_t max_earlier_config = 1 << 20;

// None for other names.
std::optional<int64_t> step_of_earlier(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(before_step)) return {};
  const char *const begin = name.data() + before_step.size(), *const end =
                                                                  name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || step < 0 || name != earlier_name(step)) return {};
  return step;
}

}  // namespace

std::string earlier_name(int64_t last) {
  return fmt::format("{}{}{}", before_step, last, after_step);
}

std::vector<EarlierSettings> read_earlier_settings(const io::Path& run) {
  std::vector<EarlierSettings> all;
  for (const std::string& name : run.names()) {
    if (const auto last = step_of_earlier(name))
      all.push_back({*last, io::read_text(run / name, "train", max_earlier_config)});
  }
  std::ranges::sort(all, {}, &EarlierSettings::last);
  return all;
}

void note_earlier_settings(const io::Path& run, const EarlierSettings& settings) {
  for (const std::string& name : run.names()) {
    const auto last = step_of_earlier(name);
    if (last && *last >= settings.last) (run / name).unlink();
  }
  if (settings.toml.empty()) return;
  io::AtomicFile file(run / earlier_name(settings.last), "train");
  file.append(settings.toml);
  file.commit();
}

}  // namespace binade::train
