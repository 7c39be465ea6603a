#include "binade/lab/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "binade/amp/autocast.h"
#include "binade/base/random.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* plan_file = "precision_plan.json";
constexpr const char* layers_file = "layers.jsonl";
constexpr const char* diagnoses_file = "doctor.txt";
// A dynamic loss scale finds its place in a few skips; more of them in a row need another reason.
constexpr int64_t usual_skips = 3;
constexpr size_t max_diagnoses = 10;  // of one run
// Scales of a delayed recipe have settled by then: the first looks of auto_precision.
constexpr int64_t early_looks[] = {4, 20};

void append_line(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::app);
  file << text << '\n';
  if (!file.flush())
    fail("doctor", {.argument = path.string(), .expected = "a file to write to", .found = "none"});
}

// One way to run the micro-batches of a trainer's step again.
struct Replay {
  train::Config config;
  amp::Fp8State fp8;
  std::unique_ptr<nn::LanguageModel> copy;
  nn::LanguageModel* model = nullptr;

  // In the trainer's precision: on its model, or where that would write FP8 histories on a copy.
  explicit Replay(train::Trainer& trainer)
      : config(trainer.config()), fp8(trainer.fp8()), model(&trainer.model()) {
    if (config.precision == train::Precision::fp8) copy_of(trainer, true);
  }

  // In f32, on a copy.
  static Replay in_f32(train::Trainer& trainer) {
    Replay replay(trainer);
    replay.config.precision = train::Precision::fp32;
    replay.config.params = train::ParameterStorage::autocast;
    replay.config.residual = {};
    replay.copy_of(trainer, false);
    return replay;
  }

 private:
  void copy_of(train::Trainer& trainer, bool with_fp8_state) {
    copy =
        std::make_unique<nn::LanguageModel>(train::model_config(config), train::placement(config));
    copy->load_state_dict(trainer.model().state_dict(), with_fp8_state);
    model = copy.get();
  }
};

// Keeps the precision of f32 products as it was.
class MatmulPrecisionGuard {
 public:
  MatmulPrecisionGuard() : previous_(amp::matmul_precision()) {}
  ~MatmulPrecisionGuard() { amp::set_matmul_precision(previous_); }
  MatmulPrecisionGuard(const MatmulPrecisionGuard&) = delete;
  MatmulPrecisionGuard& operator=(const MatmulPrecisionGuard&) = delete;

  void use(bool in_f32) {
    amp::set_matmul_precision(in_f32 ? amp::MatmulPrecision::highest : previous_);
  }

 private:
  amp::MatmulPrecision previous_;
};

}  // namespace

std::optional<Diagnosis> examine_step(train::Trainer& trainer, const data::Tokens& tokens,
                                      int64_t step, double scale) {
  MatmulPrecisionGuard matmul;
  Replay own(trainer);
  std::optional<Replay> f32;
  const auto replay = [&](bool in_f32) -> Replay& {
    if (in_f32 && !f32) f32.emplace(Replay::in_f32(trainer));
    return in_f32 ? *f32 : own;
  };
  const auto seed = static_cast<uint64_t>(trainer.config().seed);
  std::optional<Diagnosis> found;
  for (int64_t micro = 0; micro < trainer.config().accumulate && !found; ++micro) {
    const auto loss = [&](bool in_f32) {
      const Replay& how = replay(in_f32);
      matmul.use(in_f32);
      random::begin_step(seed, static_cast<uint64_t>(step));
      return train::micro_loss(*how.model, how.config, how.fp8, tokens, step, micro);
    };
    const auto parameters = [&](bool in_f32) { return replay(in_f32).model->named_parameters(); };
    found = diagnose({loss, parameters, scale});
  }
  return found;
}

void Doctor::begin(train::Trainer& trainer, const fs::path& folder) {
  folder_ = folder;
  // A resumed run goes on with what it had found by then.
  if (!trainer.config().auto_precision || !fs::exists(folder_ / plan_file)) return;
  for (const train::Promotion& one : train::read_precision_plan(folder_ / plan_file).bf16) {
    if (one.step > trainer.steps()) continue;
    plan_.bf16.push_back(one);
    trainer.exclude_from_fp8(one.module);
  }
}

bool Doctor::looks_at(const train::Config& config, int64_t step) const {
  if (config.auto_precision &&
      std::find(std::begin(early_looks), std::end(early_looks), step) != std::end(early_looks))
    return true;
  return config.layer_stats > 0 && step % config.layer_stats == 0;
}

bool Doctor::before_step(train::Trainer& trainer) {
  if (!looks_at(trainer.config(), trainer.steps() + 1)) return false;
  statistics_.emplace(trainer.fp8().recipe, trainer.model().named_buffers());
  watching_.emplace(&*statistics_);
  return true;
}

std::vector<std::string> Doctor::keep_statistics(train::Trainer& trainer, int64_t step) {
  watching_.reset();
  ranking_ = statistics_->ranking();
  statistics_.reset();
  append_line(folder_ / layers_file, ranking_json(ranking_, step));
  std::vector<std::string> notes;
  if (!trainer.config().auto_precision) return notes;
  for (const LayerStats& layer : ranking_) {
    if (layer.harm() <= most_harm || plan_.contains(layer.module)) continue;
    trainer.exclude_from_fp8(layer.module);
    plan_.bf16.push_back({layer.module, step, layer.harm()});
    notes.push_back(fmt::format(
        "step {}: {} moves to bf16: FP8 takes {:.0f}% of its signal (amax x {:.3g}, w {:.3g}, dy "
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
  if (statistics_) notes = keep_statistics(trainer, result.step);
  const bool finite_loss = std::isfinite(result.loss);
  skipped_in_a_row_ = result.applied ? 0 : skipped_in_a_row_ + 1;
  if (result.applied && finite_loss) {
    diagnosed_ = false;
    return notes;
  }
  const bool scaled = trainer.config().precision == train::Precision::fp16;
  const bool explained = scaled && finite_loss && skipped_in_a_row_ < usual_skips;
  if (explained || diagnosed_ || diagnoses_.size() >= max_diagnoses) return notes;
  diagnosed_ = true;
  const auto found = examine_step(trainer, tokens, result.step - 1, result.scale);
  if (!found) return notes;
  diagnoses_.push_back(*found);
  notes.push_back(fmt::format("doctor, step {}: {}", result.step, to_text(*found)));
  append_line(folder_ / diagnoses_file, notes.back());
  return notes;
}

}  // namespace binade::lab
