#include "binade/train/step_graph.h"

#include <chrono>
#include <optional>
#include <utility>

#include "binade/amp/trace.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/gpu.h"
#include "binade/backend/profile.h"
#include "binade/base/error.h"

namespace binade::train {
namespace {

// The first step tunes matmuls and creates state; the second is the first to find that state.
constexpr int64_t first_steps = 2;
// If the host launches kernels for less than this fraction of a step, the GPU never waits for it
// and a graph gains nothing.
constexpr double worthwhile = 0.25;

}  // namespace

StepGraph::StepGraph(GraphMode requested, Device device, std::function<bool(bool)> agree)
    : device_(device),
      agree_(std::move(agree)),
      mode_(requested == GraphMode::off  ? Mode::off
            : requested == GraphMode::on ? Mode::on
                                         : Mode::undecided) {
  if (backend::Graph::is_supported(device)) return;
  // On the meta device a run is only forecast.
  if (mode_ == Mode::on && !device.is_meta()) {
    fail("config", {.argument = "[train] graph",
                    .expected = "'auto' or 'off' on " + to_string(device),
                    .found = "'on'",
                    .hint = "only a GPU's work can be captured: use --device cuda"});
  }
  mode_ = Mode::off;
}

bool StepGraph::observed() const {
  return backend::profiled(device_) != nullptr || amp::tracing() ||
         autograd::op_observer() != nullptr;
}

bool StepGraph::replays_next() {
  const bool interrupted = std::exchange(interrupted_, false);
  return mode_ == Mode::on && steps_run_ >= first_steps && !interrupted && !observed();
}

void StepGraph::reset() {
  graph_ = {};
  steps_run_ = 0;
}

void StepGraph::run(FunctionRef<void()> step) {
  const bool timed = mode_ == Mode::undecided && steps_run_ >= first_steps && !observed();
  run_between([&] { timed ? decide(step) : step(); });
  ++steps_run_;
}

void StepGraph::decide(FunctionRef<void()> step) {
  using Clock = std::chrono::steady_clock;
  backend::synchronize(device_);
  const auto begin = Clock::now();
  step();
  const auto started = Clock::now();
  backend::synchronize(device_);
  const auto done = Clock::now();
  const bool pays = started - begin > worthwhile * (done - begin);
  mode_ = (agree_ ? agree_(pays) : pays) ? Mode::on : Mode::off;
}

void StepGraph::run_between(FunctionRef<void()> work) {
  std::optional<memory::PrivatePool::Use> use;
  if (graph_.captured()) use.emplace(graph_.pool());
  work();
}

}  // namespace binade::train
