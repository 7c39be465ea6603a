#pragma once

#include "binade/ops/common.h"

// What ops that write into their first argument share. Not part of the public interface.
namespace binade::ops {

// Fails, naming the op, unless the op may write into x. `records`: a gradient will be recorded.
void require_writable(const char* op, const Tensor& x, bool records);

// Whether a write of values computed from `source` into x is part of a graph.
bool write_records(const Tensor& x, const Tensor& source);

// x's elements become those of `values`, which broadcasts to it, in memory and in the graph.
// `from_self` says that the values were computed from x.
void write(const Tensor& x, const Tensor& values, bool from_self);

// `source`, or a copy of it if writing x would change what is still to be read.
Tensor unaffected_by_write(const Tensor& x, const Tensor& source);

}  // namespace binade::ops
