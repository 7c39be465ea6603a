#pragma once

#include <vector>

#include "binade/ranks/step_clock.h"
#include "binade/tensor/memory.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/memory/arrangement.h"
#include "binade/train/report/layer_history.h"
#include "binade/train/run/metrics.h"

namespace binade::train {

// Where a run comes from, as text; empty if unknown.
struct Provenance {
  std::string date = {};        // of its end, UTC
  std::string version = {};     // of Binade
  std::string command = {};     // that started the run
  std::string resumed_by = {};  // the last command that resumed it; empty: none
  std::string machine = {};

  bool operator==(const Provenance&) const = default;
};
// The provenance of a run that ends now; `command` started it, empty: unknown.
Provenance provenance(const Config& config, const std::string& command = {});

// The content of a run's report.
struct RunSummary {
  std::string name = {};  // its folder
  Config config = Config();
  int64_t parameters = 0, trained_parameters = 0;
  int64_t steps = 0;  // that summary.json is about
  bool is_running = false;
  std::vector<Record> records = {};
  std::vector<std::string> warnings = {};  // about damaged files, which were left out
  memory::Statistics memory = {};
  std::optional<Arrangement> arrangement = {};  // chosen for the run
  double full_speed = 0;                        // tokens/s at the machine's matmul rate; 0: unknown
  double epoch_steps = 0;                       // of one pass over the data; 0: unknown
  double bytes_per_token = 0;                   // of the validation text; 0: unknown
  std::string sample = {};                      // generated text; may be empty
  Provenance origin = {};
  std::vector<ranks::RankTime> ranks = {};  // empty: one process
  LayerHistory layers = {};
  PrecisionPlan moves = {};    // of auto_precision
  std::string diagnoses = {};  // doctor.txt
  // The run of auto_precision again in bf16 and by the plain recipe, if they were trained.
  std::vector<RunSummary> baselines = {};

  // Tokens up to a record; logs of older versions count every position of a batch.
  double tokens_at(const Record& record) const;
  // Over all steps so far; 0 before the first.
  double mean_tokens_per_second() const;
  // That of its losses: "nats per token".
  const char* loss_unit() const;
  // A loss in nats per token as bits per byte of text; nothing if bytes_per_token is unknown.
  std::optional<double> bits_per_byte(double loss) const;
};

// A self-contained page: charts as inline SVG, light and dark.
std::string report_html(const RunSummary& run);
void write_report(const RunSummary& run, const io::Path& path);

}  // namespace binade::train
