#include "binade/train/run/resume_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/data/tokenizer.h"
#include "binade/io/file.h"
#include "binade/train/checkpoint.h"

namespace binade::train {
namespace {

constexpr int64_t max_checked_config = 1 << 20;
// Settings that decide what the state of a checkpoint consists of.
constexpr std::string_view state_settings[] = {
    "optimizer", "moments",      "params", "precision", "freeze",
    "gradients", "lora-targets", "recipe", "lora-rank", "objective"};

bool is_state_setting(const SettingChange& change) {
  return std::ranges::find(state_settings, change.name) != std::end(state_settings);
}

// Whether the state of the one cannot become that of the other.
bool never_fits(const SettingChange& change) {
  constexpr std::string_view always[] = {"optimizer", "params",       "freeze",
                                         "lora-rank", "lora-targets", "objective"};
  const auto has = [&change](std::string_view value) {
    return change.from == value || change.to == value;
  };
  return std::ranges::find(always, change.name) != std::end(always) ||
         (change.name == "moments" && has("8bit")) || (change.name == "precision" && has("fp16"));
}

// "batch-size" for "batch_size".
std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

bool allows(const Config& config, const std::string& name) {
  return std::ranges::any_of(config.run.allow_changes, [&name](const std::string& allowed) {
    return with_dashes(allowed) == name;
  });
}

std::string tokenizer_in_words(std::string_view tokenizer) {
  if (tokenizer.empty()) return "bytes";
  return fmt::format("a tokenizer of {} bytes, XXH3 {:016x}", tokenizer.size(),
                     XXH3_64bits(tokenizer.data(), tokenizer.size()));
}

// Something other than a setting that differs. `advice`: how to have it as it was.
struct Difference {
  std::string name, argument, from, to, advice;
};

void refuse_difference(const Difference& difference, const io::Path& checkpoint, bool may_change) {
  const std::string hint =
      may_change ? fmt::format("{}, or add --allow-changes {} to continue with this one",
                               difference.advice, difference.name)
                 : fmt::format("{}, or train on the other with --init-from {} and another --out",
                               difference.advice, checkpoint.string());
  fail("train", {.argument = difference.argument,
                 .expected = fmt::format("that of {}, {}", checkpoint.string(), difference.from),
                 .found = difference.to,
                 .hint = hint});
}

std::vector<Difference> differences(const Config& config, const Origin& now,
                                    const data::Tokenizer& tokenizer, const io::Path& checkpoint) {
  std::vector<Difference> found;
  const Origin then = read_origin(checkpoint);
  const auto file = data::find_tokenizer(checkpoint.plain());
  const std::string saved =
      file ? io::read_text(checkpoint / file->filename(), "train", data::max_tokenizer_bytes)
           : std::string();
  if (saved != tokenizer.model())
    found.push_back({"tokenizer", "the tokenizer " + config.data.tokenizer,
                     tokenizer_in_words(saved), tokenizer_in_words(tokenizer.model()),
                     "leave --tokenizer out"});
  if (!then.data.empty() && then.data != now.data)
    found.push_back(
        {"data", "the data " + config.data.source, then.data, now.data, "restore the data"});
  if (!then.arithmetic.empty() && then.arithmetic != now.arithmetic)
    found.push_back({"arithmetic", "the arithmetic of this machine", then.arithmetic,
                     now.arithmetic, "resume on a machine like that (see BINADE_CPU)"});
  return found;
}

// The changes that change bits, and `steps` if the learning rates depend on it.
std::vector<SettingChange> changes_since(const Config& config, const io::Path& checkpoint) {
  const io::Path file = checkpoint / "config.toml";
  const std::string saved = io::read_text(file, "train", max_checked_config);
  std::vector<SettingChange> changes =
      all_changed_settings(saved_values(saved, file.string()), config);
  std::erase_if(changes, [&config](const SettingChange& change) {
    const bool of_schedule =
        change.name == "steps" && config.train.schedule != optim::ScheduleKind::constant;
    return !change.changes_bits && !of_schedule;
  });
  return changes;
}

// The value of a single one, or all with their names.
std::string values_of(const std::vector<SettingChange>& changes,
                      std::string SettingChange::*value) {
  if (changes.size() == 1) return changes[0].*value;
  std::string text;
  for (const SettingChange& change : changes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", change.name, change.*value);
  return text;
}

std::string names_of(const std::vector<SettingChange>& changes, const char* between) {
  std::string text;
  for (const SettingChange& change : changes) text += (text.empty() ? "" : between) + change.name;
  return text;
}

[[noreturn]] void refuse_changes(const std::vector<SettingChange>& changes,
                                 const io::Path& checkpoint, const std::string& hint) {
  fail("train",
       {.argument = names_of(changes, ", "),
        .expected = fmt::format("{}, with which {} was written",
                                values_of(changes, &SettingChange::from), checkpoint.string()),
        .found = values_of(changes, &SettingChange::to),
        .hint = hint});
}

[[noreturn]] void refuse_misfits(const std::vector<SettingChange>& changes,
                                 const io::Path& checkpoint) {
  refuse_changes(changes, checkpoint,
                 fmt::format("its state does not fit; leave the change out, or start a new run "
                             "from the weights with --init-from {}",
                             checkpoint.string()));
}

}  // namespace

std::vector<std::string> check_unchanged(const Config& config, const Origin& now,
                                         const data::Tokenizer& tokenizer,
                                         const io::Path& checkpoint) {
  std::vector<std::string> warnings;
  std::vector<SettingChange> refused, of_model, misfits;
  for (const SettingChange& change : changes_since(config, checkpoint)) {
    if (change.is_model) {
      of_model.push_back(change);
    } else if (never_fits(change)) {
      misfits.push_back(change);
    } else if (change.name != "steps" && !allows(config, change.name)) {
      refused.push_back(change);
    } else {
      warnings.push_back(fmt::format(
          "{}: the checkpoint was written with {}, this run has {}{}", change.name, change.from,
          change.to, change.name == "steps" ? "; so the learning rates differ" : ""));
    }
  }
  if (!of_model.empty())
    refuse_changes(of_model, checkpoint, "another model is another run: name another --out for it");
  if (!misfits.empty()) refuse_misfits(misfits, checkpoint);
  if (!refused.empty())
    refuse_changes(
        refused, checkpoint,
        fmt::format("leave the change out, or add --allow-changes {} to continue with it",
                    names_of(refused, ",")));
  for (const Difference& one : differences(config, now, tokenizer, checkpoint)) {
    // The reference's log-probabilities in the checkpoint are those of its data.
    const bool may_change = one.name != "data" || !config.objective.has_pairs();
    if (!may_change || !allows(config, one.name)) refuse_difference(one, checkpoint, may_change);
    warnings.push_back(
        fmt::format("{}: that of the checkpoint was {}, this is {}", one.name, one.from, one.to));
  }
  const Origin then = read_origin(checkpoint);
  if (!then.base.empty() && then.base != now.base)
    fail("train", {.argument = "--init-from " + config.model.init_from,
                   .expected = "the weights that the run adapts, " + then.base,
                   .found = now.base,
                   .hint = "restore them, or name their folder with --init-from"});
  if (!then.version.empty() && then.version != now.version)
    warnings.push_back(
        fmt::format("the checkpoint is of Binade {}, this is {}", then.version, now.version));
  return warnings;
}

std::string other_settings_of(const io::Path& checkpoint, const Config& config) {
  if (changes_since(config, checkpoint).empty()) return {};
  return io::read_text(checkpoint / "config.toml", "train", max_checked_config);
}

void check_allowed_names(const Config& config) {
  const std::vector<std::string> known = changeable_names();
  for (const std::string& name : config.run.allow_changes) {
    if (std::ranges::find(known, with_dashes(name)) != known.end()) continue;
    const auto nearest = std::ranges::min_element(known, {}, [&name](const std::string& one) {
      return edit_distance(with_dashes(name), one);
    });
    fail("train", {.argument = "--allow-changes",
                   .expected = "names of settings that change a run's steps, or data, tokenizer, "
                               "arithmetic",
                   .found = "'" + name + "'",
                   .hint = fmt::format("did you mean {}? A configuration file goes before this "
                                       "option",
                                       *nearest)});
  }
}

void refuse_state(const Config& config, const io::Path& checkpoint, const Error& reason) {
  std::vector<SettingChange> changes = changes_since(config, checkpoint);
  std::erase_if(changes, [](const SettingChange& change) { return !is_state_setting(change); });
  if (changes.empty()) throw Error(reason);
  refuse_misfits(changes, checkpoint);
}

}  // namespace binade::train
