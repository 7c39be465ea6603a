#include "binade/train/run/prometheus.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "binade/base/error.h"
#include "binade/version.h"

namespace binade::train {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Prometheus asks every 15 s or more.
constexpr std::chrono::seconds write_interval(1);

std::string number_text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", number);
}

std::string label_text(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

// Lines of the format: HELP and TYPE of a name, then its samples.
class Lines {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP binade_{0} {1}\n# TYPE binade_{0} {2}\n", name, help, type);
  }
  void sample(double value, const Labels& labels = {}) {
    std::string list;
    for (const auto& [label, text] : labels)
      list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", label, label_text(text));
    text_ += fmt::format("binade_{}{} {}\n", name_, list.empty() ? "" : "{" + list + "}",
                         number_text(value));
  }
  void one(std::string_view name, std::string_view type, std::string_view help, double value) {
    family(name, type, help);
    sample(value);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  std::string_view name_;
};

void add_progress(Lines& lines, const PrometheusNumbers& n) {
  lines.family("build_info", "gauge", "1, with the version of Binade and the run's precision.");
  Labels labels = {{"version", version()}, {"precision", n.precision}};
  if (!n.recipe.empty()) labels.emplace_back("recipe", n.recipe);
  lines.sample(1, labels);
  lines.one("steps_total", "counter", "Optimizer steps taken, skipped ones included.",
            static_cast<double>(n.record.step));
  lines.one("planned_steps", "gauge", "Steps of the whole run.", static_cast<double>(n.steps));
  lines.one("tokens_total", "counter", "Tokens trained on.",
            static_cast<double>(n.record.tokens.value_or(0)));
  if (n.epoch) lines.one("epochs", "gauge", "Passes over the training data so far.", *n.epoch);
  lines.one("training_seconds_total", "counter", "Seconds of training steps.", n.record.seconds);
  lines.family("skipped_steps_total", "counter", "Steps skipped, by what was not finite.");
  lines.sample(static_cast<double>(n.skipped.by_loss), {{"reason", "loss"}});
  lines.sample(static_cast<double>(n.skipped.by_gradient), {{"reason", "gradient"}});
  if (n.validation_loss)
    lines.one("validation_loss", "gauge",
              "Newest validation loss, nats per token (or pair of answers).", *n.validation_loss);
  if (n.checkpoint_time)
    lines.one("last_checkpoint_timestamp_seconds", "gauge",
              "When the newest checkpoint was complete, since 1970.", *n.checkpoint_time);
}

void add_step(Lines& lines, const PrometheusNumbers& n) {
  const Record& r = n.record;
  if (r.step == 0) return;  // the untrained model
  lines.one("loss", "gauge",
            "Training loss of the newest step, nats per token (or pair of answers).", r.loss);
  if (r.preferences) {
    lines.one("preference_accuracy", "gauge",
              "Fraction of the newest step's pairs whose chosen answer has the higher reward.",
              r.preferences->accuracy);
    lines.one("reward_margin", "gauge", "Reward of chosen minus rejected answers, newest step.",
              r.preferences->margin());
  }
  lines.one("learning_rate", "gauge", "Learning rate of the newest step.", r.lr);
  lines.one("gradient_norm", "gauge", "Norm of the gradient before clipping.", r.gradient_norm);
  lines.one("loss_scale", "gauge", "Factor of the loss; 1 without loss scaling.", r.scale);
  lines.one("tokens_per_second", "gauge", "Training speed of all ranks together.",
            r.tokens_per_second);
  if (n.full_speed > 0)
    lines.one("mfu_ratio", "gauge", "Training speed relative to the measured matmul rate.",
              r.tokens_per_second / n.full_speed);
}

void add_shares(Lines& lines, const PrometheusNumbers& n) {
  if (n.shares.empty()) return;
  const auto add = [&](const char* name, const char* help, double QuantizationShare::*share) {
    lines.family(name, "gauge", help);
    for (const QuantizationShare& one : n.shares)
      lines.sample(one.*share, {{"tensor", std::string(amp::name(one.role))}});
  };
  add("quantization_saturated_ratio", "Fraction of values beyond the 8-bit format, mean of layers.",
      &QuantizationShare::saturated);
  add("quantization_flushed_ratio",
      "Fraction of values that the 8-bit format rounds to zero, mean of layers.",
      &QuantizationShare::flushed);
}

void add_memory(Lines& lines, const PrometheusNumbers& n) {
  lines.family("memory_bytes", "gauge", "Memory of the device in use, by kind.");
  for (int i = 0; i < memory::category_count; ++i)
    lines.sample(static_cast<double>(n.memory.live[static_cast<size_t>(i)]),
                 {{"kind", std::string(memory::name(static_cast<memory::Category>(i)))}});
  lines.sample(static_cast<double>(n.memory.cached), {{"kind", "cached"}});
  lines.one("memory_peak_bytes", "gauge", "Most memory of the device in use at once.",
            static_cast<double>(n.memory.peak));
}

// Whether the file is replaced by the text; sets errno.
bool replace(const io::Path& path, std::string_view text) {
  const io::Path temporary = path.beside(path.filename() + ".tmp");
  const int file = temporary.open(O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return false;
  bool is_written = true;
  while (!text.empty() && is_written) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    is_written = count > 0;
    text.remove_prefix(is_written ? static_cast<size_t>(count) : 0);
  }
  ::close(file);
  if (is_written && temporary.rename_to(path)) return true;
  const int error = errno;
  temporary.unlink();
  errno = error;
  return false;
}

[[noreturn]] void refuse(const io::Path& path, std::string found) {
  fail("train", {.argument = "--metrics-file " + path.string(),
                 .expected = "a file to write to",
                 .found = std::move(found),
                 .hint = "the folder must exist, and take a second file beside it"});
}

std::string last_failure() { return std::generic_category().message(errno); }

}  // namespace

std::string prometheus_text(const PrometheusNumbers& numbers) {
  Lines lines;
  add_progress(lines, numbers);
  add_step(lines, numbers);
  add_shares(lines, numbers);
  add_memory(lines, numbers);
  return std::move(lines).text();
}

void check_metrics_file(const io::Path& path) {
  if (path.empty()) return;
  const io::EntryKind kind = path.kind();
  if (kind != io::EntryKind::file && kind != io::EntryKind::nothing)
    refuse(path, kind == io::EntryKind::folder ? "a folder" : "neither a file nor nothing");
  const io::Path temporary = path.beside(path.filename() + ".tmp");
  const int file = temporary.open(O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) refuse(path, last_failure());
  ::close(file);
  temporary.unlink();
}

PrometheusFile::PrometheusFile(io::Path path, const PrometheusNumbers& first)
    : path_(std::move(path)), last_(std::chrono::steady_clock::now()) {
  if (!path_.empty() && !replace(path_, prometheus_text(first))) refuse(path_, last_failure());
}

std::string PrometheusFile::update(FunctionRef<PrometheusNumbers()> numbers, bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (path_.empty() || (!now && time - last_ < write_interval)) return "";
  last_ = time;
  if (replace(path_, prometheus_text(numbers())) || std::exchange(has_failed_, true)) return "";
  return fmt::format("{} cannot be written ({}); training continues without it", path_.string(),
                     last_failure());
}

}  // namespace binade::train
