#pragma once

#include <cstdint>

#include "binade/backend/elementwise.h"

// The operations on contiguous values of a compute type: float in vector code (unary.cpp,
// gradient.cpp, binary.cpp), double and int64_t in scalar code (f64.cpp, i64.cpp). An output may be
// one of the inputs.
namespace binade::backend::cpu {

// y = op(x)
void unary_block(Unary op, UnaryParams params, const float* x, float* y, int64_t n);
void unary_block(Unary op, UnaryParams params, const double* x, double* y, int64_t n);
// Only if computes_on_integers(op, params).
void unary_block(Unary op, UnaryParams params, const int64_t* x, int64_t* y, int64_t n);

// dx = dy * op'(x); `saved` is op(x) if saves_output(op), else x.
void gradient_block(Unary op, UnaryParams params, const float* dy, const float* saved, float* dx,
                    int64_t n);
void gradient_block(Unary op, UnaryParams params, const double* dy, const double* saved, double* dx,
                    int64_t n);

// y = op(a, b); comparisons give 0 or 1. Integers wrap around; division by zero gives 0.
void binary_block(Binary op, const float* a, const float* b, float* y, int64_t n);
void binary_block(Binary op, const double* a, const double* b, double* y, int64_t n);
void binary_block(Binary op, const int64_t* a, const int64_t* b, int64_t* y, int64_t n);

// y = alpha * x + beta * z
void axpby_block(double alpha, const float* x, double beta, const float* z, float* y, int64_t n);
void axpby_block(double alpha, const double* x, double beta, const double* z, double* y, int64_t n);
void axpby_block(double alpha, const int64_t* x, double beta, const int64_t* z, int64_t* y,
                 int64_t n);

// Whether op maps integers to integers: its compute type is then i64.
bool computes_on_integers(Unary op, UnaryParams params);

// The inverse of erf, to one or two units in the last place.
double inverse_erf(double x);

}  // namespace binade::backend::cpu
