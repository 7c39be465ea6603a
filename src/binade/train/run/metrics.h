#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/file.h"
#include "binade/io/tensorboard.h"
#include "binade/train/hash/chain.h"
#include "binade/train/trainer.h"

namespace binade::train {

// One step as it is logged.
struct Record {
  int64_t step = 0;
  double loss = 0;
  std::optional<double> validation_loss;
  double lr = 0;
  double gradient_norm = 0;
  double scale = 1;
  bool applied = true;
  int64_t skipped = 0;  // so far
  double tokens_per_second = 0;
  int64_t memory = 0;                           // peak, bytes
  double seconds = 0;                           // of training so far
  std::optional<int64_t> tokens = {};           // trained on so far; none in logs of older versions
  std::optional<double> joules_per_token = {};  // so far; none if the device does not tell
  std::optional<Preferences> preferences = {}, validation_preferences = {};  // of pairs
  std::optional<Link> link = {};  // of the hash chain, every hash_every steps

  bool operator==(const Record&) const = default;
};

// A record as one line of JSON; non-finite numbers become null.
std::string to_json(const Record& record);

// Passes the records of a metrics.jsonl, with their lines, to `visit`, in bounded memory. A line
// that is not a record, or not as it was written, is left out; `damaged` receives it with a message
// that names its position. An incomplete last line, which a killed run leaves, is ignored.
void visit_metrics(
    const io::Path& path,
    const std::function<void(const Record& record, std::string_view line)>& visit,
    const std::function<void(const std::string& message, std::string_view line)>& damaged);

// All records of a metrics.jsonl. Lines that are not records are counted in `damaged` if it is
// given; otherwise they are an error.
std::vector<Record> read_metrics(const io::Path& path, int64_t* damaged = nullptr);

// The validation losses of a run.
struct LossHistory {
  std::optional<double> first = {}, last = {};
  // The lowest after a step, that step, and the validations since then; none before the first.
  std::optional<double> best = {};
  int64_t best_step = 0, validations_since_best = 0;
  int64_t validations = 0;
  std::optional<Preferences> last_preferences = {};  // of pairs

  void add(const Record& record);
};

// Steps of a run that were skipped, by what was not finite.
struct SkippedSteps {
  int64_t by_loss = 0, by_gradient = 0;

  void add(const Record& record);
};

// metrics.jsonl, metrics.csv and tb/ (TensorBoard event files) of a run. Opening keeps the records
// up to `step` and drops later ones, which a resumed run writes again. Damaged lines move to
// metrics.jsonl.damaged. Memory does not grow with the steps.
class MetricsLog {
 public:
  MetricsLog(const io::Path& folder, int64_t step);

  void add(const Record& record);
  // Makes the records durable, so that no checkpoint is ahead of its log.
  void sync();

  // The losses of all records, those before a resume included.
  const LossHistory& losses() const { return losses_; }
  const SkippedSteps& skipped() const { return skipped_; }
  bool empty() const { return is_empty_; }
  double seconds() const { return seconds_; }
  const std::optional<int64_t>& tokens() const { return tokens_; }
  // About damaged lines and missing steps; empty if there were none.
  const std::string& warning() const { return warning_; }

 private:
  void note(const Record& record);

  LossHistory losses_;
  SkippedSteps skipped_;
  bool is_empty_ = true;
  double seconds_ = 0;
  std::optional<int64_t> tokens_ = 0;
  std::string warning_;
  std::optional<io::AppendFile> json_, csv_;
  io::EventWriter events_;
};

}  // namespace binade::train
