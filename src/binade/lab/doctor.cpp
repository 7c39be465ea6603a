#include "binade/lab/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/base/execution.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/io/checksum.h"
#include "binade/io/file.h"
#include "binade/lab/step_replay.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/train/run/folder.h"

namespace binade::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* plan_file = "precision_plan.json";
constexpr const char* layers_file = "layers.jsonl";
constexpr const char* diagnoses_file = "doctor.txt";
// How entries of that file begin.
constexpr std::string_view diagnosis_start = "doctor, step ", alarm_start = "watch, step ";
// A comment that begins with its step precedes the cure.
constexpr std::string_view cure_start = "# ";
constexpr int64_t max_cure = 1 << 16;
// Apart from the run's own events: TensorBoard follows one file of a folder.
constexpr const char* events_folder = "tb/layers";
// Skips in a row from which on the loss scaler alone does not explain them.
constexpr int64_t unexplained_skips = 3;
// The same after a step that was applied at more than the default scale: a scale that grows every
// few steps probes what fits, and a batch of gradients 64 times larger takes six halvings.
constexpr int64_t unexplained_skips_of_probing = 7;
// Length of a list of harmed layers from which on no further one is named.
constexpr size_t max_named = 120;
constexpr int64_t max_file = int64_t{1} << 32;  // of statistics and diagnoses
constexpr size_t max_diagnoses = 10;            // per run
// Statistics that may be computed in the background at a time.
constexpr size_t max_pending_rankings = 2;
// Steps that a diagnosis can look back on, and how often the weights' norm is measured.
constexpr size_t history_length = 200;
constexpr int64_t weight_norm_interval = 50;
// A loss is a spike if it is this many times the median of the steps before it, above it by this
// many nats, and beyond their range. Losses of single batches vary by some percent, and those of a
// text known by heart, which are nearly nothing, by more.
constexpr size_t spike_window = 20;
constexpr double spike_ratio = 1.5, spike_margin = 0.5;
// Layers whose gradients have more zeros than this may have lost them to underflow, and as many
// layers are worth a replay, which tells.
constexpr double many_zeros = 0.5, layers_with_zeros = 0.25;
// The first steps with a ranking for auto_precision: from the second step on, delayed scales are
// those of past tensors. Then at an interval that costs 2% of a run's time.
constexpr int64_t early_steps[] = {2, 3, 4, 8, 12, 16, 20};
constexpr int64_t look_interval = 25;
// The first steps in which FP8 without auto_precision is looked at for harm: runs may be shorter
// than the interval of statistics.
constexpr int64_t harm_steps[] = {4, 8};

// The text with lines of at most `width` bytes, broken at spaces. A line that continues another is
// indented by two more than that.
std::string wrapped(std::string_view text, size_t width = 79) {
  std::string result;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()) + 2, ' ');
    std::string begin;
    while (begin.size() + line.size() > width) {
      const size_t space = line.rfind(' ', width - begin.size());
      if (space == std::string_view::npos || space + 2 <= indent.size()) break;
      result += begin + std::string(line.substr(0, space)) + "\n";
      line.remove_prefix(space + 1);
      begin = indent;
    }
    result += begin + std::string(line) + (text.empty() ? "" : "\n");
  }
  return result;
}

// The step of a line of layers.jsonl, or of the first line of a diagnosis or an alarm; none for
// other lines.
std::optional<int64_t> step_of(std::string_view line) {
  for (const std::string_view before :
       {std::string_view("{\"step\":"), diagnosis_start, alarm_start}) {
    int64_t step = 0;
    if (!line.starts_with(before)) continue;
    const auto [end, error] =
        std::from_chars(line.data() + before.size(), line.data() + line.size(), step);
    if (error == std::errc()) return step;
  }
  return {};
}

// Removes the cure of a step that a resumed run takes again.
void keep_cure_until(const io::Path& path, int64_t step) {
  if (!path.exists()) return;
  const std::string text = io::read_text(path, "doctor", max_cure);
  if (!text.starts_with(cure_start)) return;
  const auto found = step_of(std::string_view(text).substr(cure_start.size()));
  if (found && *found > step) path.unlink();
}

struct Kept {
  size_t entries = 0;
  int64_t last_step = 0;
};

// Whether a line of layers.jsonl is as it was written.
bool is_whole_record(const std::string& line) {
  try {
    json::parse(line, {"doctor", layers_file});
    io::check_checksum(line, layers_file, "doctor");
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Moves damaged lines of layers.jsonl to `aside`.
size_t repair_layers(const io::Path& path, const io::Path& aside) {
  if (!path.exists()) return 0;
  const std::string text = io::read_text(path, "doctor", max_file);
  std::string whole;
  size_t damaged = 0;
  std::optional<io::AppendFile> rest;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    if (is_whole_record(line)) {
      whole += line + "\n";
      continue;
    }
    ++damaged;
    if (!rest) rest.emplace(aside, "doctor");
    rest->append(line + "\n");
  }
  if (damaged == 0) return 0;
  io::AtomicFile file(path, "doctor");
  file.append(whole);
  file.commit();
  return damaged;
}

// Cuts a file off before the first entry of a later step, and an incomplete last line.
Kept keep_until(const io::Path& path, int64_t step) {
  Kept kept;
  if (!path.exists()) return kept;
  const std::string text = io::read_text(path, "doctor", max_file);
  size_t end = 0;
  for (size_t next; (next = text.find('\n', end)) != std::string::npos; end = next + 1) {
    const std::string_view line = std::string_view(text).substr(end, next - end);
    const auto found = step_of(line);
    if (found && *found > step) break;
    if (!found || line.starts_with(alarm_start)) continue;
    ++kept.entries;
    kept.last_step = *found;
  }
  if (end == text.size()) return kept;
  io::AtomicFile file(path, "doctor");
  file.append(std::string_view(text).substr(0, end));
  file.commit();
  return kept;
}

// Fails for a pattern of layer_stats_modules that no layer has.
void check_patterns(train::Trainer& trainer) {
  const NamedTensors parameters = trainer.model().named_parameters();
  for (const std::string& pattern : trainer.config().run.layer_stats_modules) {
    const auto names = [&pattern](const auto& parameter) {
      return matches_module(pattern, parameter.first.substr(0, parameter.first.rfind('.')));
    };
    if (std::none_of(parameters.begin(), parameters.end(), names))
      fail("doctor", {.argument = "[run] layer_stats_modules",
                      .expected = "modules of the model, such as blocks.0 or blocks.*.mlp",
                      .found = "'" + pattern + "'"});
  }
}

double weight_norm(train::Trainer& trainer) {
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  trainer.gather_weights();
  double sum_of_squares = 0;
  for (const Tensor& parameter : trainer.model().parameters())
    sum_of_squares += std::pow(norm(parameter.detach()).item(), 2);
  return std::sqrt(sum_of_squares);
}

}  // namespace

std::vector<std::string> Doctor::begin(train::Trainer& trainer, const io::Path& folder) {
  folder_ = folder;
  check_patterns(trainer);
  first_step_ = trainer.steps();
  events_.reset();
  initial_weight_norm_ = weight_norm(trainer);
  return take_up(trainer);
}

std::vector<std::string> Doctor::take_up(train::Trainer& trainer) {
  std::vector<std::string> warnings;
  const std::string aside = std::string(layers_file) + ".damaged";
  if (const size_t damaged = repair_layers(folder_ / layers_file, folder_ / aside); damaged > 0)
    warnings.push_back(fmt::format(
        "{} damaged line{} moved from {} to {}{}", damaged, damaged == 1 ? " was" : "s were",
        layers_file, aside,
        trainer.config().precision.automatic
            ? ": later changes of precision may differ from those of the uninterrupted run"
            : ""));
  keep_until(folder_ / layers_file, trainer.steps());
  const Kept diagnosed = keep_until(folder_ / diagnoses_file, trainer.steps());
  keep_cure_until(folder_ / train::cure_file, trainer.steps());
  earlier_diagnoses_ = diagnosed.entries;
  skipped_in_a_row_ = trainer.skipped_in_a_row();
  diagnosed_ = skipped_in_a_row_.length() > 0 && diagnosed.entries > 0 &&
               diagnosed.last_step > trainer.steps() - skipped_in_a_row_.length();
  configured_ = trainer.recipes();
  auto_precision_ = AutoPrecision(configured_.recipe);
  if (!trainer.config().precision.automatic) return warnings;
  train::PrecisionPlan saved, plan;
  if ((folder_ / plan_file).exists()) saved = train::read_precision_plan(folder_ / plan_file);
  for (const train::Promotion& change : saved.layers) {
    if (change.step > trainer.steps()) continue;
    plan.layers.push_back(change);
    apply(trainer, change);
  }
  auto_precision_.take_up(plan);
  for (const PastLook& look : read_looks(folder_ / layers_file, trainer.steps()))
    auto_precision_.add(look.layers, look.step);
  if (plan != saved) train::write_precision_plan(plan, folder_ / plan_file);
  return warnings;
}

void Doctor::apply(train::Trainer& trainer, const train::Promotion& change,
                   const train::Amaxes& amaxes) const {
  if (const auto recipe = train::recipe_of(configured_, change.module))
    trainer.set_recipe(change.module, change.recipe(*recipe), amaxes);
}

bool Doctor::needs_statistics(const train::Config& config, int64_t step) const {
  const bool early =
      std::find(std::begin(early_steps), std::end(early_steps), step) != std::end(early_steps);
  if (config.precision.automatic && (early || step % look_interval == 0)) return true;
  // A loss scale that is too low shows in the first step.
  const bool first_of_f16 = config.precision.matmul == train::Precision::fp16 && step == 1;
  const bool first_of_fp8 =
      config.precision.matmul == train::Precision::quantized &&
      std::find(std::begin(harm_steps), std::end(harm_steps), step) != std::end(harm_steps);
  return config.run.layer_stats > 0 &&
         (step % config.run.layer_stats == 0 || first_of_f16 || first_of_fp8);
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
  const amp::Recipe& recipe = trainer.recipes().recipe;
  const train::Config& config = trainer.config();
  LayerStatistics::Options options{.modules = config.run.layer_stats_modules};
  if (config.precision.automatic) options.finer = finer_recipe(recipe);
  statistics_ = std::make_shared<LayerStatistics>(
      recipe, train::delayed_scales(trainer.model(), trainer.recipes()), std::move(options));
  observer_scope_.emplace(statistics_.get());
  // The next step depends on the statistics, or they take time that is not the next step's.
  return trainer.config().precision.automatic ||
         !backend::capabilities(trainer.device()).is_asynchronous;
}

void Doctor::end_observation(const train::Trainer& trainer) {
  if (statistics_ == nullptr) return;
  observer_scope_.reset();
  const auto statistics = std::exchange(statistics_, nullptr);
  const bool in_background = backend::capabilities(trainer.device()).is_asynchronous;
  const auto compute = [statistics, in_background] {
    std::optional<SerialScope> serial;
    if (in_background) serial.emplace();
    return statistics->ranking();
  };
  pending_.push_back(
      {observed_step_, std::async(in_background ? std::launch::async : std::launch::deferred,
                                  execution::carried(compute))
                           .share()});
}

void Doctor::finish_rankings(size_t left) {
  const auto ready = [](const PendingRanking& one) {
    return one.layers.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!pending_.empty() && (pending_.size() > left || ready(pending_.front()))) {
    ranking_ = pending_.front().layers.get();
    ranked_step_ = pending_.front().step;
    if (!events_) events_.emplace(folder_ / events_folder, first_step_);
    add_events(*events_, ranking_, ranked_step_);
    append_line(layers_file, io::with_checksum(ranking_json(
                                 ranking_, ranked_step_)));  // last: a retry adds no second line
    pending_.pop_front();
  }
}

// Of the run's recipe: layers that have one of their own are few.
std::vector<train::QuantizationShare> Doctor::quantization_shares(const train::Trainer& trainer) {
  std::vector<train::QuantizationShare> shares;
  const bool is_quantized = trainer.config().precision.matmul == train::Precision::quantized;
  if (!is_quantized || ranking_.empty()) return shares;
  constexpr std::pair<amp::Role, TensorStats LayerStats::*> tensors[] = {
      {amp::Role::input, &LayerStats::input},
      {amp::Role::weight, &LayerStats::weight},
      {amp::Role::gradient, &LayerStats::gradient}};
  for (const auto& [role, tensor] : tensors) {
    const auto& recipe = trainer.recipes().recipe.tensors[role];
    for (size_t f = 0; recipe && f < candidate_count; ++f) {
      if (candidates[f]->bits() != 8 || !(*candidates[f] == recipe->format)) continue;
      train::QuantizationShare share{role, 0, 0};
      for (const LayerStats& layer : ranking_) {
        share.saturated += (layer.*tensor).out_of_range[f].saturate;
        share.flushed += (layer.*tensor).out_of_range[f].underflow;
      }
      share.saturated /= static_cast<double>(ranking_.size());
      share.flushed /= static_cast<double>(ranking_.size());
      shares.push_back(share);
    }
  }
  return shares;
}

std::vector<std::string> Doctor::take_statistics(train::Trainer& trainer, size_t left) {
  end_observation(trainer);
  const bool adapts = trainer.config().precision.automatic && !pending_.empty();
  finish_rankings(adapts ? 0 : left);
  return adapts ? adapt(trainer, observed_step_) : std::vector<std::string>();
}

std::vector<std::string> Doctor::adapt(train::Trainer& trainer, int64_t step) {
  std::vector<std::string> notes;
  for (const train::Promotion& change : auto_precision_.look(ranking_, step)) {
    const auto layer = std::find_if(ranking_.begin(), ranking_.end(), [&](const LayerStats& one) {
      return one.module == change.module;
    });
    // Scales that were in use go on; others start from what the layer shows now.
    const auto before = train::recipe_of(trainer.recipes(), change.module);
    const amp::RoleMap<bool> used = before ? train::used_scales(*before) : amp::RoleMap<bool>();
    train::Amaxes amaxes;
    amaxes[amp::Role::input] = layer->input.amax;
    amaxes[amp::Role::weight] = layer->weight.amax;
    amaxes[amp::Role::gradient] = layer->gradient.amax;
    amaxes[amp::Role::hidden] = layer->result_amax;
    for (const amp::Role role : amp::layer_roles) amaxes[role] = used[role] ? 0 : amaxes[role];
    apply(trainer, change, amaxes);
    notes.push_back(to_text(change));
  }
  train::write_precision_plan(plan(), folder_ / plan_file);
  return notes;
}

std::vector<std::string> Doctor::after_step(train::Trainer& trainer, const data::Tokens& tokens,
                                            const train::StepResult& result) {
  const bool waits = !backend::capabilities(trainer.device()).is_asynchronous ||
                     result.step == trainer.config().train.steps;
  std::vector<std::string> notes = take_statistics(trainer, waits ? 0 : max_pending_rankings);
  note_harm(trainer, notes);
  const bool lost = loses_gradients(trainer, result.step);
  const bool suspicious = is_suspicious(trainer, result) || lost;
  ReplayedStep replayed{.step = result.step - 1, .scale = result.scale, .history = history_};
  if (suspicious && !diagnosed_ && diverged_step_ > 0) {
    diagnosed_ = true;
    add_note(notes, result.step,
             fmt::format("the loss or a gradient is non-finite, or none is left\n  verdict: "
                         "divergence; it follows that of step {}",
                         diverged_step_));
  }
  if (suspicious && !diagnosed_ && earlier_diagnoses_ + diagnoses_.size() < max_diagnoses) {
    diagnosed_ = true;
    // The weights of now; of this step's loss nothing is known.
    replayed.history.push_back({.loss = NAN, .weight_norm = weight_norm(trainer)});
    if (const auto found = examine_step(trainer, tokens, replayed)) {
      diagnoses_.push_back(*found);
      add_note(notes, result.step, to_text(*found));
      notes.back() += keep_cure(*found, result.step);  // the folder's name is not for its files
    }
  }
  const bool spike = is_spike(result.loss);
  if (spike && !spiked_ && !suspicious && diverged_step_ == 0 && spikes_ < max_diagnoses) {
    ++spikes_;
    add_note(notes, result.step,
             fmt::format("the loss jumped from {:.4g} to {:.4g}\n  {}", history_.back().loss,
                         result.loss, explain_spike(trainer, tokens, replayed)));
  }
  spiked_ = spike;
  remember(trainer, result);
  return notes;
}

void Doctor::add_note(std::vector<std::string>& notes, int64_t step, const std::string& text) {
  notes.push_back(wrapped(fmt::format("{}{}: {}", diagnosis_start, step, text)));
  append_line(diagnoses_file, notes.back());
}

std::string Doctor::keep_cure(const Diagnosis& diagnosis, int64_t step) const {
  const io::Path path = folder_ / train::cure_file;
  if (!diagnosis.cure || path.exists()) return "";
  io::AtomicFile file(path, "doctor");
  file.append(fmt::format("{}{}{}: finite on {} of {} batches with this\n{}", cure_start,
                          diagnosis_start, step, diagnosis.cure->held, diagnosis.cure->batches,
                          diagnosis.cure->toml()));
  file.commit();
  return "\n  a new run with it: binade train --cure " + folder_.string();
}

void Doctor::note_harm(const train::Trainer& trainer, std::vector<std::string>& notes) {
  if (!trainer.recipes().enabled || trainer.config().precision.automatic || said_harm_ ||
      ranked_step_ == harm_step_)
    return;
  harm_step_ = ranked_step_;
  std::set<std::string> harmed;
  std::string named;
  for (const LayerStats& layer : ranking_) {  // by harm, largest first
    if (!(layer.harm() > AutoPrecision::max_harm)) continue;
    harmed.insert(layer.module);
    if (!harmed_.contains(layer.module) || named.size() > max_named) continue;
    named +=
        fmt::format("{}{:.0f}% of {}", named.empty() ? "" : ", ", 100 * layer.harm(), layer.module);
  }
  harmed_ = std::move(harmed);
  if (named.empty()) return;
  said_harm_ = true;
  const train::Alarm alarm{.cause = train::Cause::harm,
                           .step = ranked_step_,
                           .finding = "FP8 loses " + named + " in two looks in a row",
                           .advice = "--auto-precision moves such layers to finer scales or bf16"};
  notes.push_back(fmt::format("step {}: {}", alarm.step, to_text(alarm)));
  note_alarm(alarm);
}

void Doctor::note_alarm(const train::Alarm& alarm) {
  if (alarm.cause == train::Cause::divergence) diverged_step_ = alarm.step;
  append_line(diagnoses_file,
              wrapped(fmt::format("{}{}: {}", alarm_start, alarm.step, to_text(alarm))));
}

void Doctor::append_line(const char* file, const std::string& text) {
  unsynced_.insert(file);
  io::AppendFile(folder_ / file, "doctor").append(text + "\n");
}

void Doctor::before_checkpoint(train::Trainer& trainer) {
  // The last step has not come to the end of after_step() if a file could not be written.
  take_statistics(trainer, 0);
  // A run that is resumed after a power cut finds nothing of the checkpoint's steps again.
  for (const std::string& file : unsynced_) {
    if (const io::Path path = folder_ / file; path.exists()) io::AppendFile(path, "doctor").sync();
  }
  if (!unsynced_.empty()) io::sync_folder(folder_, "doctor");
  unsynced_.clear();
}

bool Doctor::is_suspicious(const train::Trainer& trainer, const train::StepResult& result) {
  const bool finite_loss = std::isfinite(result.loss);
  skipped_in_a_row_.note(result.applied);
  const bool scaled = trainer.config().precision.matmul == train::Precision::fp16;
  // No gradient at all: whatever the scale was meant to keep is lost.
  if (result.applied && finite_loss && scaled && result.gradient_norm == 0) return true;
  if (result.applied && finite_loss) {
    diagnosed_ = false;
    last_applied_scale_ = result.scale;
    return false;
  }
  const bool probes = last_applied_scale_ > amp::GradScalerOptions().init_scale;
  const int64_t limit = probes ? unexplained_skips_of_probing : unexplained_skips;
  return !(scaled && finite_loss && skipped_in_a_row_.length() < limit);
}

void Doctor::remember(train::Trainer& trainer, const train::StepResult& result) {
  // The norm of the weights moves slowly, and costs a pass over them.
  const bool measures = backend::capabilities(trainer.device()).is_host_readable &&
                        result.step % weight_norm_interval == 1;
  const double norm = history_.empty() ? initial_weight_norm_
                      : measures       ? weight_norm(trainer)
                                       : history_.back().weight_norm;
  history_.push_back({.loss = result.loss,
                      .gradient_norm = result.gradient_norm,
                      .weight_norm = norm,
                      .lr = result.lr});
  if (history_.size() > history_length) history_.erase(history_.begin());
}

bool Doctor::loses_gradients(const train::Trainer& trainer, int64_t step) {
  if (trainer.config().precision.matmul != train::Precision::fp16 || ranking_.empty() ||
      ranked_step_ != step)
    return false;
  const auto zeros = std::count_if(ranking_.begin(), ranking_.end(), [](const LayerStats& layer) {
    return layer.gradient.zeros > many_zeros;
  });
  const bool lost =
      static_cast<double>(zeros) > layers_with_zeros * static_cast<double>(ranking_.size());
  return !std::exchange(lost_gradients_, lost) && lost;
}

bool Doctor::is_spike(double loss) const {
  if (!std::isfinite(loss) || history_.size() < spike_window) return false;
  std::vector<double> losses;
  for (size_t i = history_.size() - spike_window; i < history_.size(); ++i)
    losses.push_back(history_[i].loss);
  std::sort(losses.begin(), losses.end());
  const double middle = losses[losses.size() / 2];
  return loss > std::max(spike_ratio * middle, middle + spike_margin) &&
         loss > losses.back() + 0.5 * (middle - losses.front());
}

}  // namespace binade::lab
