#include "binade/train/run/live_report.h"

#include "binade/base/error.h"
#include "binade/train/report/run_summary.h"

namespace binade::train {
namespace {

// Reading a log of 100,000 steps takes about a second.
constexpr std::chrono::seconds page_interval(60);

}  // namespace

void LiveReport::update(const io::Path& folder) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < page_interval) return;
  last_ = now;
  try {
    RunSummary run = read_run(folder);
    run.is_running = true;
    write_report(run, folder / "report.html");
  } catch (const Error&) {
  }
}

}  // namespace binade::train
