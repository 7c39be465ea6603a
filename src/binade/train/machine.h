#pragma once

#include <string>

#include "binade/amp/recipe/recipe.h"
#include "binade/train/config/choices.h"

// The speed of this machine. It is measured here and nowhere else: training, plans and benchmarks
// all ask here. A *peak* is what the hardware could do at best; a *rate* is what Binade's own
// kernels reach.
namespace binade::train {

// FLOP/s that no matmul of the precision can exceed: on a CPU those of a loop of the multiply-add
// instruction its kernels use, measured now for `seconds`; on a GPU the vendor's figure for dense
// matrices. 0: unknown.
double instruction_peak(Device device, Precision precision, double seconds = 0.2);

// FLOP/s of one large matmul in the precision, as training runs it with the threads in force.
// Measured after a warm-up, once in a process for each device and precision, within about a tenth
// of a second. A device that emulates quantized matmuls runs them in bf16, so that is measured
// instead.
double matmul_rate(Device device, Precision precision);

// A linear layer applied to `rows` rows.
struct LayerShape {
  int64_t rows = 0, in = 0, out = 0;
};

// FLOP/s that a linear layer reaches in training: forward and backward, with casts of f32 inputs
// and quantization by the recipe.
double linear_rate(Device device, Precision precision, const amp::Recipe& recipe,
                   const LayerShape& shape);

// Seconds per weight that the first forward and backward of a step take longer than later ones,
// because they cast the weight to 16 bits or quantize it.
double weight_cast_seconds(Device device, Precision precision, const amp::Recipe& recipe,
                           const LayerShape& shape);

// Bytes per second that a norm with a residual reaches in training, forward and backward in f32.
double norm_bandwidth(Device device, int64_t rows, int64_t width);

// The name of a GPU; empty if there is no such GPU.
std::string gpu_name(Device device);

// The name of the CPU.
std::string cpu_name();

// The processor that a run on the device uses: a GPU, or the CPU and the threads in force.
std::string machine_name(Device device);

// The command that started this program, with arguments quoted for a shell. Empty if unknown.
std::string command_line();

}  // namespace binade::train
