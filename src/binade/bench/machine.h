#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/tensor/device.h"

// What benchmarks know of the device they run on.
namespace binade::bench {

// Seconds on the clock by which benchmarks measure. `cpu_time` counts the CPU time of the whole
// process instead: with one thread, what a busy machine would take if it were idle.
double bench_clock();
void set_bench_clock(bool cpu_time);

// Waits until the device has done all it was given.
void wait_for(Device device);

// The device in words: "cpu, 2 threads, bf16 kernels of neon-bf16".
std::string device_text(Device device);

// The most operations per second a matrix product of this precision (fp32, tf32, bf16, fp16, fp8)
// could do: on a CPU a loop of the instruction that its kernels use, measured now for `seconds`; on
// a GPU its maker's figure without sparsity. 0: not known.
double peak_rate(Device device, std::string_view precision, double seconds = 0.2);

// Runs each contestant in turn, so that a busy machine disturbs all alike, until `seconds` have
// passed; returns the fewest seconds that one call of each took.
std::vector<double> contest(Device device, const std::vector<std::function<void()>>& contestants,
                            double seconds);

}  // namespace binade::bench
