#include "binade/lab/replay/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/error.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/component_options.h"
#include "binade/train/run/earlier_settings.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/metrics.h"
#include "binade/train/run/resume_settings.h"
#include "binade/version.h"

namespace binade::lab {
namespace {

void refuse_unrepeatable(const train::Config& config, const std::string& run,
                         std::string_view caller) {
  const char* reason = nullptr;
  if (config.ranks.order == ranks::ReduceOrder::any) reason = "sums of ranks in any order (order)";
  if (config.train.nondeterministic) reason = "sums in any order (nondeterministic)";
  if (config.precision.automatic)
    reason = "precision that changes by what was measured (auto_precision)";
  if (reason != nullptr)
    fail(caller, {.argument = run,
                  .expected = "a run whose steps have the same bits each time",
                  .found = reason});
}

void read_earlier(RecordedRun& run) {
  for (const train::EarlierSettings& one : train::read_earlier_settings(run.folder)) {
    run.earlier.push_back(
        {one.last, train::saved_values(one.toml, fmt::format("{}, the settings up to step {}",
                                                             run.folder.string(), one.last))});
    run.earlier.back().config.data = run.config.data;  // paths may have changed
  }
}

void find_checkpoints(RecordedRun& run) {
  for (const io::Checkpoint& one : io::list_step_folders(run.folder / "checkpoints")) {
    const io::Path path = run.folder / "checkpoints" / one.path.filename();
    try {
      train::verify_checkpoint(path);
      run.checkpoints.push_back(one);
      run.origin = train::read_origin(path);
    } catch (const Error& error) {
      run.notes.push_back(
          fmt::format("{} is passed over: {}", one.path.filename().string(), error.what()));
    }
  }
}

void read_log(RecordedRun& run) {
  run.chain = train::read_chain(run.folder);
  train::visit_metrics(
      run.folder / "metrics.jsonl",
      [&run](const train::Record& record, std::string_view) {
        run.steps = std::max(run.steps, record.step);
      },
      [](const std::string&, std::string_view) {});
  if (!run.checkpoints.empty()) run.steps = std::max(run.steps, run.checkpoints.back().step);
}

void open_tokens(RecordedRun& run, std::string_view caller) {
  run.tokenizer = data::open_tokenizer(run.config.data.tokenizer);
  run.split = read_data(run.config, run.tokenizer.get());
  const std::string now = train::describe_data(run.split);
  if (!run.origin.data.empty() && run.origin.data != now)
    fail(caller, {.argument = "the data " + run.config.data.source + " of " + run.folder.string(),
                  .expected = run.origin.data,
                  .found = now,
                  .hint = "restore the data: without them no step can be repeated, and of its "
                          "states only those in checkpoints can be seen (binade inspect)"});
}

// Adapters alone are no run: their checkpoints do not hold the weights that they adapt.
void check_base(const RecordedRun& run, std::string_view caller) {
  if (run.config.lora.rank == 0 || run.origin.base.empty()) return;
  const std::string now =
      train::describe_weights(io::model_folder(run.config.model.init_from, "--init-from"));
  if (run.origin.base != now)
    fail(caller, {.argument = "the weights in " + run.config.model.init_from + " that " +
                              run.folder.string() + " adapts",
                  .expected = run.origin.base,
                  .found = now,
                  .hint = "restore them: without them no step can be repeated"});
}

// "neon-bf16" of "cpu neon-bf16, NEON_BF16"; empty if that is no CPU's.
std::string level_in(const std::string& arithmetic) {
  constexpr std::string_view before = "cpu ";
  if (!arithmetic.starts_with(before)) return {};
  return arithmetic.substr(before.size(), arithmetic.find(',') - before.size());
}

}  // namespace

const train::Config& RecordedRun::settings_of(int64_t step) const {
  for (const Earlier& one : earlier) {
    if (step <= one.last) return one.config;
  }
  return config;
}

const io::Checkpoint* RecordedRun::checkpoint_before(int64_t step) const {
  const io::Checkpoint* found = nullptr;
  for (const io::Checkpoint& one : checkpoints) {
    if (one.step <= step) found = &one;
  }
  return found;
}

data::Split read_data(const train::Config& config, const data::Tokenizer* tokenizer) {
  data::Source source = train::data_source(config, tokenizer);
  source.cache = train::token_cache(config);
  return data::read_split(source);
}

void select_arithmetic(const train::Config& config, const std::string& arithmetic,
                       std::string_view caller) {
  const std::string level = level_in(arithmetic);
  const bool has_level = std::ranges::any_of(backend::cpu::available_levels(),
                                             [&](const auto& one) { return one.name == level; });
  if (has_level) backend::cpu::set_level(level);
  const std::string here = train::describe_arithmetic(train::device_of(config));
  if (arithmetic.empty() || arithmetic == here) return;
  fail(caller, {.argument = "the run's arithmetic",
                .expected = arithmetic + ", by which it was trained",
                .found = here,
                .hint = "another processor rounds its sums in another order: repeat it on one like "
                        "that"});
}

RecordedRun read_recorded(const std::string& folder) {
  RecordedRun run;
  run.folder = folder;
  train::ResumeSettings saved = train::saved_settings(run.folder, {});
  run.config = std::move(saved.config);
  run.notes = std::move(saved.warnings);
  read_earlier(run);
  find_checkpoints(run);
  read_log(run);
  if (run.checkpoints.empty())
    run.notes.push_back(
        "there is no checkpoint: steps are replayed from the start, and that data "
        "and processor are those of the run is known from its hashes alone");
  if (run.chain.links.empty())
    run.notes.push_back(
        "the log has no hashes (hash_every): nothing tells whether a replay is "
        "what the run did");
  if (!run.chain.broken.empty())
    run.notes.push_back(
        fmt::format("the chain of hashes breaks at step {}: the log was changed, "
                    "or lacks lines",
                    run.chain.broken.front()));
  if (!run.origin.version.empty() && run.origin.version != version())
    run.notes.push_back(
        fmt::format("the run is of Binade {}, this is {}", run.origin.version, version()));
  return run;
}

void open_data(RecordedRun& run, std::string_view caller) {
  refuse_unrepeatable(run.config, run.folder.string(), caller);
  select_arithmetic(run.config, run.origin.arithmetic, caller);
  check_base(run, caller);
  open_tokens(run, caller);
}

RecordedRun open_run(const std::string& folder, std::string_view caller) {
  RecordedRun run = read_recorded(folder);
  open_data(run, caller);
  return run;
}

}  // namespace binade::lab
