#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/io/path.h"
#include "binade/tensor/memory.h"
#include "binade/train/run/metrics.h"
#include "binade/train/run/observer.h"

// A run's newest numbers as a text file for Prometheus (format 0.0.4), which node exporter's
// textfile collector reads.
namespace binade::train {

struct PrometheusNumbers {
  Record record = {};  // the newest; before the first step only its step and tokens count
  std::optional<double> validation_loss = {};  // the newest
  SkippedSteps skipped = {};
  int64_t steps = 0;                 // in all
  std::optional<double> epoch = {};  // passes over the data so far
  double full_speed = 0;             // tokens/s at the machine's matmul rate; 0: unknown
  memory::Statistics memory = {};
  std::optional<double> checkpoint_time = {};  // of the newest, seconds since 1970
  std::vector<QuantizationShare> shares = {};  // empty: not measured
  std::string precision = {}, recipe = {};     // recipe empty: none
};

// Numbers that are not known have no line.
std::string prometheus_text(const PrometheusNumbers& numbers);

// Fails if no file can be written there.
void check_metrics_file(const io::Path& path);

// The file of a run. Readers see a complete text always: it replaces the one before. It is not
// synchronized to the disk, which a file of newest numbers is not worth.
class PrometheusFile {
 public:
  // An empty path: writes nothing. Fails if the file cannot be written.
  PrometheusFile(io::Path path, const PrometheusNumbers& first);

  // Writes numbers(), at most once a second unless `now`. Returns a warning when that fails for the
  // first time; empty otherwise.
  std::string update(FunctionRef<PrometheusNumbers()> numbers, bool now);

 private:
  io::Path path_;
  std::chrono::steady_clock::time_point last_;
  bool has_failed_ = false;
};

}  // namespace binade::train
