#include "binade/train/run/newest_numbers.h"

#include <chrono>
#include <filesystem>
#include <system_error>

#include "binade/amp/recipe/text.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

template <class Time>
double seconds_since_1970(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Record last_logged(const RunFolder& folder, Record newest) {
  if (folder.resumed())
    visit_metrics(
        folder.path() / "metrics.jsonl",
        [&newest](const Record& record, std::string_view) { newest = record; },
        [](const std::string&, std::string_view) {});
  return newest;
}

std::optional<double> resumed_time(const RunFolder& folder) {
  if (!folder.resumed()) return {};
  std::error_code error;
  const auto time = fs::last_write_time(folder.resumed()->path / "manifest.json", error);
  if (error) return {};
  return seconds_since_1970(fs::file_time_type::clock::to_sys(time));
}

}  // namespace

NewestNumbers::NewestNumbers(const Run& run, const RunFolder& folder, const Record& first)
    : run_(run),
      newest_(last_logged(folder, first)),
      checkpoint_time_(resumed_time(folder)),
      file_(run.config.run.metrics_file, numbers()) {}

std::string NewestNumbers::add(const Record& record) {
  newest_ = record;
  return file_.update([this] { return numbers(); }, record.validation_loss.has_value());
}

std::string NewestNumbers::note_checkpoint() {
  checkpoint_time_ = seconds_since_1970(std::chrono::system_clock::now());
  return file_.update([this] { return numbers(); }, true);
}

PrometheusNumbers NewestNumbers::numbers() const {
  const PrecisionSettings& precision = run_.config.precision;
  PrometheusNumbers numbers{.record = newest_,
                            .validation_loss = run_.log.losses().last,
                            .skipped = run_.log.skipped(),
                            .steps = run_.config.train.steps,
                            .full_speed = run_.full_speed,
                            .memory = memory::statistics(run_.trainer.device()),
                            .checkpoint_time = checkpoint_time_,
                            .precision = std::string(name(precision.matmul))};
  if (run_.epoch_steps > 0) numbers.epoch = static_cast<double>(newest_.step) / run_.epoch_steps;
  if (precision.matmul == Precision::quantized) numbers.recipe = amp::to_text(precision.recipe);
  if (run_.observer != nullptr) numbers.shares = run_.observer->quantization_shares(run_.trainer);
  return numbers;
}

}  // namespace binade::train
