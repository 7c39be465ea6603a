#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "binade/io/tensorboard.h"
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
  int64_t memory = 0;  // peak, bytes
  double seconds = 0;  // of training so far

  bool operator==(const Record&) const = default;
};

// A record as one line of JSON; non-finite numbers become null.
std::string to_json(const Record& record);

// The records in a metrics.jsonl. An incomplete last line is ignored; any other mistake is an error
// that names its position.
std::vector<Record> read_metrics(const std::filesystem::path& path);

// metrics.jsonl, metrics.csv and tb/ (TensorBoard event files) of a run. Opening keeps the records
// up to `step` and drops later ones, which a resumed run writes again.
class MetricsLog {
 public:
  MetricsLog(const std::filesystem::path& folder, int64_t step);

  void add(const Record& record);
  const std::vector<Record>& records() const { return records_; }

 private:
  std::filesystem::path folder_;
  std::vector<Record> records_;
  std::ofstream json_, csv_;
  io::EventWriter events_;
};

}  // namespace binade::train
