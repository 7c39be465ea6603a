#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/tensor/device.h"

// Clock, device and contest of the benchmarks.
namespace binade::bench {

// Seconds on the clock of the benchmarks: wall time, or the CPU time of the whole process, which
// with one thread is the time that an idle machine would take.
enum class Clock : uint8_t { wall, cpu };
double bench_clock();
void set_bench_clock(Clock clock);

// Waits until the device has finished all its work.
void wait_for(Device device);

// "cpu, 2 threads, kernels of neon-bf16".
std::string device_text(Device device);

// Runs the contestants in turns until `seconds` have passed, so that a busy machine disturbs all
// alike. Returns the fewest seconds that one call of each took.
std::vector<double> contest(Device device, const std::vector<std::function<void()>>& contestants,
                            double seconds);

}  // namespace binade::bench
