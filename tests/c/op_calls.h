#pragma once

#include <string>
#include <utility>
#include <vector>

#include "binade/c.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"

// Calls of the ops of the C interface, with what the C++ functions give: with default options, and
// with values that differ from them and from one another.
namespace binade::c {

// An option of any kind; the texts and lists of a call outlive it.
struct Given : bnd_option {
  Given(const char* name, int64_t value) : bnd_option{.name = name, .kind = BND_INT} {
    integer = value;
  }
  Given(const char* name, int value) : Given(name, int64_t{value}) {}
  Given(const char* name, double value) : bnd_option{.name = name, .kind = BND_FLOAT} {
    number = value;
  }
  Given(const char* name, const char* value) : bnd_option{.name = name, .kind = BND_TEXT} {
    text = value;
  }
  Given(const char* name, std::vector<int64_t> values)
      : bnd_option{.name = name, .kind = BND_INTS}, kept(std::move(values)) {}

  std::vector<int64_t> kept;
};

struct OpCall {
  std::string op;
  std::vector<Tensor> inputs;
  std::vector<Given> options;
  Tensor expected;
};

std::vector<OpCall> elementwise_calls();
std::vector<OpCall> unary_calls();
std::vector<OpCall> matmul_and_reduce_calls();
std::vector<OpCall> shape_calls();
std::vector<OpCall> layer_calls();
std::vector<OpCall> loss_calls();
std::vector<OpCall> composed_calls();

// Normal numbers, other ones for each key.
inline Tensor some(const Shape& shape, uint64_t key) { return randn(shape, {7, key}); }
// Between 0.1 and 0.9.
inline Tensor fractions(const Shape& shape, uint64_t key) {
  return sigmoid(some(shape, key)) * 0.8 + 0.1;
}
inline Tensor indices(std::vector<double> values, const Shape& shape) {
  return tensor(std::move(values), shape, DType::i64);
}
inline Tensor signs() { return tensor({1, -1, -1, 1, 1, -1}, {2, 3}); }

using List = std::vector<int64_t>;

}  // namespace binade::c
