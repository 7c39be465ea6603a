#pragma once

#include <cstdint>

#include "binade/backend/reduce.h"

// Reductions of contiguous blocks in a compute type; float uses vector code. The order of a block's
// additions is the same for every vector width: element i is added to running result i % 32, then
// the 32 results are halved until one is left.
namespace binade::backend::cpu {

// All n elements combined by op (mean: as sum); op's neutral element for n = 0.
float reduce_block(Reduction op, const float* x, int64_t n);
double reduce_block(Reduction op, const double* x, int64_t n);
int64_t reduce_block(Reduction op, const int64_t* x, int64_t n);

// y = (x - center)^2, for one center and for one per element. y may be x.
void squared_deviations(const float* x, float center, float* y, int64_t n);
void squared_deviations(const double* x, double center, double* y, int64_t n);
void squared_deviations(const float* x, const float* center, float* y, int64_t n);
void squared_deviations(const double* x, const double* center, double* y, int64_t n);

}  // namespace binade::backend::cpu
