#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "binade/tensor/dtype.h"
#include "binade/tensor/memory.h"
#include "binade/train/config/config.h"

// The memory and time a run will need, before anything is allocated (train/memory/forecast.h).
namespace binade::lab {

// Ops by how close they come to the roofline; loss: the head's matmul with the cross entropy.
enum class WorkKind : uint8_t { linear, attention, loss, other, update };
constexpr size_t work_kinds = 5;

// One op of a step in a roofline model: it takes as long as its arithmetic or its memory traffic.
struct Work {
  WorkKind kind = WorkKind::other;
  double flops = 0;
  double bytes = 0;
  DType dtype = DType::f32;  // of the matmuls
};

struct Forecast {
  int64_t parameter_count = 0, trained_count = 0;
  std::array<int64_t, memory::category_count> at_peak = {};  // bytes by category
  int64_t masters = 0;                                       // of the optimizer's bytes
  int64_t gradients = 0;      // of all parameters, before the update; fewer may exist at the peak
  int64_t logits = 0;         // while the loss is computed, which may not be at the peak
  int64_t weight_copies = 0;  // of autocast in 16 bits; among the activations and the workspace
  int64_t peak = 0;           // of the steps
  int64_t reserved = 0;       // peak with the free blocks that a CPU's allocator keeps
  int64_t between_steps = 0;  // when a checkpoint is taken
  int64_t statistics = 0;     // samples of all layers in a step with layer statistics
  int64_t snapshot = 0;  // copy of weights and optimizer state that a checkpoint is written from
  bool saves_during_steps = false;  // whether the snapshot lives beside the next steps
  std::vector<Work> work;           // of one optimizer step
  double observed_blocks = 0;       // whose layers' statistics are taken, per step on average
  bool casts_weights = false;       // once per step, to 16 bits or fewer
  train::Precision precision = train::Precision::fp32;

  int64_t of(memory::Category category) const { return at_peak[static_cast<size_t>(category)]; }
  // The peak of the whole run on its device: steps, statistics and checkpoints.
  int64_t run_peak() const { return with_run(peak); }
  // run_peak() with the free blocks that a CPU's allocator keeps.
  int64_t run_reserved() const { return with_run(reserved); }

 private:
  int64_t with_run(int64_t steps) const;
};

// The memory and the work of one training step of the configuration.
Forecast forecast(const train::Config& config);

// The largest batch whose peak fits `bytes`; 0 if not even one sequence fits.
int64_t largest_batch(train::Config config, int64_t bytes);

// Resident memory of this process besides its tensors, bytes: code, libraries, stacks, buffers of
// kernels. After measure_machine(), which runs the kernels of a training step, a training process
// has as much. 0 if unknown.
int64_t program_memory();

// Tokens per second, with the range in which measurements may be expected.
struct SpeedRange {
  double low = 0, likely = 0, high = 0;
};

struct Gpu;  // lab/gpu_speed.h

// One line of a plan.
struct PlanRow {
  std::string name;
  train::Config config = train::Config();
  Forecast forecast;
  int64_t process = 0;  // peak resident memory of a CPU's run; 0: unknown
  int64_t largest_batch = 0;
  SpeedRange speed;
};

struct Plan {
  std::vector<PlanRow> rows;
  double other_load = 0;  // fraction of this machine's CPUs that others used while it was measured
};

// Forecasts of the configuration in each precision, with and without recompute, for a machine with
// `memory` bytes: this one, or one with `gpu`, of which nothing is measured.
Plan plan(const train::Config& config, int64_t memory, const Gpu* gpu = nullptr);
// In lines of at most `width` characters if that is 80 or more.
std::string plan_text(const std::vector<PlanRow>& rows, int64_t memory,
                      int width = std::numeric_limits<int>::max());

}  // namespace binade::lab
