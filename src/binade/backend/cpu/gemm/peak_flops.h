#pragma once

namespace binade::backend::cpu {

// Multiply-adds per second, in operations (two each), that all threads reach together in a loop of
// nothing else, with the instruction of the level in use: the ceiling for a matmul. Measures for
// `seconds` and returns the best. 0 if the level has no such instruction.
double f32_peak(double seconds);
double bf16_peak(double seconds);

}  // namespace binade::backend::cpu
