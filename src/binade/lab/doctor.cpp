#include "binade/lab/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/base/parallel.h"
#include "binade/base/random.h"
#include "binade/io/file.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* plan_file = "precision_plan.json";
constexpr const char* layers_file = "layers.jsonl";
constexpr const char* diagnoses_file = "doctor.txt";
// Skips in a row from which on the loss scaler alone does not explain them.
constexpr int64_t unexplained_skips = 3;
constexpr int64_t max_file = int64_t{1} << 32;  // of statistics and diagnoses
constexpr size_t max_diagnoses = 10;            // per run
// Statistics that may be computed in the background at a time.
constexpr size_t max_pending_rankings = 2;
// The first steps with a ranking for auto_precision; delayed scales are stable by then.
constexpr int64_t early_steps[] = {4, 20};

void append_line(const fs::path& path, const std::string& text) {
  io::AppendFile(path, "doctor").append(text + "\n");
}

// The step of a line of layers.jsonl, or of the first line of a diagnosis; none for other lines.
std::optional<int64_t> step_of(std::string_view line) {
  for (const std::string_view before : {"{\"step\":", "doctor, step "}) {
    int64_t step = 0;
    if (!line.starts_with(before)) continue;
    const auto [end, error] =
        std::from_chars(line.data() + before.size(), line.data() + line.size(), step);
    if (error == std::errc()) return step;
  }
  return {};
}

struct Kept {
  size_t entries = 0;
  int64_t last_step = 0;
};

// Cuts a file off before the first entry of a later step, and an incomplete last line.
Kept keep_until(const fs::path& path, int64_t step) {
  Kept kept;
  if (std::error_code error; !fs::exists(path, error)) return kept;
  const std::string text = io::read_text(path, "doctor", max_file);
  size_t end = 0;
  for (size_t next; (next = text.find('\n', end)) != std::string::npos; end = next + 1) {
    const auto found = step_of(std::string_view(text).substr(end, next - end));
    if (found && *found > step) break;
    if (!found) continue;
    ++kept.entries;
    kept.last_step = *found;
  }
  if (end == text.size()) return kept;
  io::AtomicFile file(path, "doctor");
  file.append(std::string_view(text).substr(0, end));
  file.commit();
  return kept;
}

// A model and a configuration that replay the micro-batches of a trainer's step.
struct Replay {
  train::Config config;
  amp::Fp8State fp8;
  std::unique_ptr<nn::LanguageModel> copy;
  nn::LanguageModel* model = nullptr;

  // In the trainer's precision: on its model, or on a copy if a forward would update FP8 histories.
  explicit Replay(train::Trainer& trainer)
      : config(trainer.config()), fp8(trainer.fp8()), model(&trainer.model()) {
    if (config.precision == train::Precision::fp8) copy_model(trainer);
  }

  // In f32, on a copy.
  static Replay in_f32(train::Trainer& trainer) {
    Replay replay(trainer);
    replay.config.precision = train::Precision::fp32;
    replay.config.params = train::ParameterStorage::autocast;
    replay.config.residual = {};
    replay.copy_model(trainer);
    return replay;
  }

 private:
  void copy_model(train::Trainer& trainer) {
    copy = train::make_model(config, train::placement(config));
    // Not strict in f32, where the copy has no buffers for the model's FP8 scales.
    copy->load_state_dict(trainer.model().state_dict(), config.precision == train::Precision::fp8);
    model = copy.get();
  }
};

}  // namespace

std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      int64_t step, double scale) {
  Replay as_run(trainer);
  std::optional<Replay> in_f32;
  const auto replay = [&](ReplayPrecision precision) -> Replay& {
    if (precision == ReplayPrecision::as_run) return as_run;
    if (!in_f32) in_f32.emplace(Replay::in_f32(trainer));
    return *in_f32;
  };
  const auto seed = static_cast<uint64_t>(trainer.config().seed);
  std::optional<Diagnosis> found;
  for (int64_t micro = 0; micro < trainer.config().accumulate && !found; ++micro) {
    const auto loss = [&](ReplayPrecision precision) {
      const Replay& r = replay(precision);
      random::begin_step(seed, static_cast<uint64_t>(step));
      return train::micro_loss(*r.model, r.config, r.fp8, tokens, step, micro);
    };
    const auto parameters = [&](ReplayPrecision precision) {
      return replay(precision).model->named_parameters();
    };
    found = diagnose({loss, parameters, scale});
  }
  return found;
}

void Doctor::begin(train::Trainer& trainer, const fs::path& folder) {
  folder_ = folder;
  take_up(trainer);
}

void Doctor::take_up(train::Trainer& trainer) {
  keep_until(folder_ / layers_file, trainer.steps());
  const Kept diagnosed = keep_until(folder_ / diagnoses_file, trainer.steps());
  earlier_diagnoses_ = diagnosed.entries;
  skipped_in_a_row_ = trainer.skipped_in_a_row();
  diagnosed_ = skipped_in_a_row_.length() > 0 && diagnosed.entries > 0 &&
               diagnosed.last_step > trainer.steps() - skipped_in_a_row_.length();
  if (!trainer.config().auto_precision || !fs::exists(folder_ / plan_file)) return;
  const train::PrecisionPlan saved = train::read_precision_plan(folder_ / plan_file);
  for (const train::Promotion& promotion : saved.bf16) {
    if (promotion.step > trainer.steps()) continue;
    plan_.bf16.push_back(promotion);
    trainer.exclude_from_fp8(promotion.module);
  }
  if (plan_ != saved) train::write_precision_plan(plan_, folder_ / plan_file);
}

bool Doctor::needs_statistics(const train::Config& config, int64_t step) const {
  if (config.auto_precision &&
      std::find(std::begin(early_steps), std::end(early_steps), step) != std::end(early_steps))
    return true;
  return config.layer_stats > 0 && step % config.layer_stats == 0;
}

Doctor::~Doctor() {
  try {
    finish_rankings(0);
  } catch (...) {  // a destructor cannot report it
  }
}

bool Doctor::before_step(train::Trainer& trainer) {
  end_observation(trainer);
  if (!needs_statistics(trainer.config(), trainer.steps() + 1)) return false;
  observed_step_ = trainer.steps() + 1;
  statistics_ =
      std::make_shared<LayerStatistics>(trainer.fp8().recipe, trainer.model().named_buffers());
  observer_scope_.emplace(statistics_.get());
  // The next step depends on the statistics; on a CPU, they take time that is not the next step's.
  return trainer.config().auto_precision || !trainer.device().is_cuda();
}

void Doctor::end_observation(const train::Trainer& trainer) {
  if (statistics_ == nullptr) return;
  observer_scope_.reset();
  const auto statistics = std::exchange(statistics_, nullptr);
  const bool in_background = trainer.device().is_cuda();
  const auto compute = [statistics, in_background] {
    std::optional<SerialScope> serial;
    if (in_background) serial.emplace();
    return statistics->ranking();
  };
  pending_.push_back(
      {observed_step_,
       std::async(in_background ? std::launch::async : std::launch::deferred, compute)});
}

void Doctor::finish_rankings(size_t left) {
  const auto ready = [](const PendingRanking& one) {
    return one.layers.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!pending_.empty() && (pending_.size() > left || ready(pending_.front()))) {
    ranking_ = pending_.front().layers.get();
    append_line(folder_ / layers_file, ranking_json(ranking_, pending_.front().step));
    pending_.pop_front();
  }
}

std::vector<std::string> Doctor::promote(train::Trainer& trainer, int64_t step) {
  std::vector<std::string> notes;
  for (const LayerStats& layer : ranking_) {
    if (layer.harm() <= max_harm || plan_.contains(layer.module)) continue;
    trainer.exclude_from_fp8(layer.module);
    plan_.bf16.push_back({layer.module, step, layer.harm()});
    notes.push_back(fmt::format(
        "step {}: {} moves to bf16: FP8 loses {:.0f}% of its signal (amax x {:.3g}, w {:.3g}, dy "
        "{:.3g})",
        step, layer.module, 100 * layer.harm(), layer.input.amax, layer.weight.amax,
        layer.gradient.amax));
  }
  train::write_precision_plan(plan_, folder_ / plan_file);
  return notes;
}

std::vector<std::string> Doctor::after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                            const train::StepResult& result) {
  std::vector<std::string> notes;
  end_observation(trainer);
  const bool adapts = trainer.config().auto_precision && !pending_.empty();
  const bool waits = adapts || !trainer.device().is_cuda() || result.step == trainer.config().steps;
  finish_rankings(waits ? 0 : max_pending_rankings);
  if (adapts) notes = promote(trainer, observed_step_);
  const bool finite_loss = std::isfinite(result.loss);
  skipped_in_a_row_.note(result.applied);
  if (result.applied && finite_loss) {
    diagnosed_ = false;
    return notes;
  }
  const bool scaled = trainer.config().precision == train::Precision::fp16;
  const bool explained = scaled && finite_loss && skipped_in_a_row_.length() < unexplained_skips;
  if (explained || diagnosed_ || earlier_diagnoses_ + diagnoses_.size() >= max_diagnoses)
    return notes;
  diagnosed_ = true;
  const auto found = examine_step(trainer, tokens, result.step - 1, result.scale);
  if (!found) return notes;
  diagnoses_.push_back(*found);
  notes.push_back(fmt::format("doctor, step {}: {}", result.step, to_text(*found)));
  append_line(folder_ / diagnoses_file, notes.back());
  return notes;
}

}  // namespace binade::lab
