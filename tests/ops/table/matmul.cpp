#include <algorithm>
#include <array>
#include <numbers>

#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

// a [..., m, k] x b [..., k, n] with batch axes broadcast; vectors count as a row and a column.
Array multiplied(const Array& a_given, const Array& b_given) {
  Array a = a_given, b = b_given;
  if (a.shape.rank() == 1) a.shape.insert(0, 1);
  if (b.shape.rank() == 1) b.shape.push_back(1);
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const auto batch_of = [](Shape shape) {
    shape.erase(shape.rank() - 1);
    shape.erase(shape.rank() - 1);
    return shape;
  };
  const Shape batch = broadcast_shape(batch_of(a.shape), batch_of(b.shape));
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Array y(shape);
  // Where the matrix of a batch index starts.
  const auto start = [](const Array& x, const Shape& index, int64_t size) {
    int64_t at = 0;
    const int offset = index.rank() - (x.shape.rank() - 2);
    for (int axis = 0; axis < x.shape.rank() - 2; ++axis)
      at = at * x.shape[axis] + (x.shape[axis] == 1 ? 0 : index[axis + offset]);
    return at * size;
  };
  int64_t out = 0;
  for_each_index(batch, [&](const Shape& index) {
    const int64_t a0 = start(a, index, m * k), b0 = start(b, index, k * n);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        std::vector<Real> row, column;
        for (int64_t l = 0; l < k; ++l) {
          row.push_back(a[a0 + i * k + l]);
          column.push_back(b[b0 + l * n + j]);
        }
        y[out++] = dot(row, column);
      }
    }
  });
  if (b_given.shape.rank() == 1) y.shape.erase(y.shape.rank() - 1);
  if (a_given.shape.rank() == 1)
    y.shape.erase(y.shape.rank() - (b_given.shape.rank() == 1 ? 1 : 2));
  return y;
}

using Matmul = Tensor (*)(const Tensor&, const Tensor&);

Case matmul_case(Matmul f, const std::string& name, const Shape& a, const Shape& b) {
  return {name, {{a}, {b}}, call2(f), reference2(multiplied)};
}

Description matmuls() {
  const auto make = [](const std::string& name, const Shape& a, const Shape& b) {
    return matmul_case(matmul, name, a, b);
  };
  return {
      .op = Op::matmul,
      .cases = {make("empty_rows", {0, 3}, {3, 2}), make("empty_inner", {2, 0}, {0, 3}),
                make("empty_batch", {0, 2, 3}, {1, 3, 2}), make("one", {1, 1}, {1, 1}),
                make("odd", {3, 5}, {5, 7}), make("vectors", {7}, {7}), make("row", {5}, {5, 3}),
                make("column", {3, 5}, {5}), make("batches", {2, 3, 5}, {2, 5, 2}),
                make("matrix_on_the_right", {2, 3, 5}, {5, 4}),
                make("matrix_on_the_left", {3, 5}, {2, 5, 2}),
                make("crossed_batches", {2, 1, 3, 2}, {3, 2, 2}),
                make("deep_broadcast", {2, 3, 2, 3}, {2, 1, 3, 2}),
                make("batched_column", {2, 3, 5}, {5}), make("row_and_batches", {3}, {2, 3, 2})},
      .large = make("large", {3, 67, 131}, {3, 131, 71})};
}

Description fixed_rank(Op op, Matmul f, const std::vector<std::pair<Shape, Shape>>& shapes,
                       const std::pair<Shape, Shape>& large) {
  Description description{
      .op = op, .cases = {}, .large = matmul_case(f, "large", large.first, large.second)};
  for (const auto& [a, b] : shapes)
    description.cases.push_back(matmul_case(f, to_string(a) + "x" + to_string(b), a, b));
  return description;
}

// beta * c + alpha * a b.
Description added(Op op, Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, double, double),
                  const std::vector<std::array<Shape, 3>>& shapes,
                  const std::array<Shape, 3>& large) {
  const auto make = [=](const std::string& name, const std::array<Shape, 3>& s, double beta,
                        double alpha) {
    return Case{name,
                {{s[0]}, {s[1]}, {s[2]}},
                call3([=](const Tensor& c, const Tensor& a, const Tensor& b) {
                  return f(c, a, b, beta, alpha);
                }),
                reference3([=](const Array& c, const Array& a, const Array& b) {
                  const Array scaled =
                      map(multiplied(a, b), [=](const Real& v) { return v * Real(alpha); });
                  return zip(map(c, [=](const Real& v) { return v * Real(beta); }), scaled,
                             [](const Real& l, const Real& r) { return l + r; });
                })};
  };
  Description description{
      .op = op, .cases = {}, .large = make("large", large, 0.5, 2), .rounds = Rounds::each};
  for (const auto& s : shapes) {
    description.cases.push_back(make("c" + to_string(s[0]) + "a" + to_string(s[1]), s, 1, 1));
    description.cases.push_back(
        make("c" + to_string(s[0]) + "a" + to_string(s[1]) + "_scaled", s, 0.5, -1.5));
  }
  return description;
}

Description tensordots() {
  const auto make = [](const std::string& name, const Shape& a, const Shape& b,
                       const std::vector<int64_t>& axes_a, const std::vector<int64_t>& axes_b) {
    return Case{
        name,
        {{a}, {b}},
        call2([=](const Tensor& x, const Tensor& y) { return tensordot(x, y, axes_a, axes_b); }),
        reference2([=](const Array& x, const Array& y) {
          const auto split = [](const Array& v, const std::vector<int64_t>& summed) {
            std::vector<int64_t> rest;
            for (int64_t axis = 0; axis < v.shape.rank(); ++axis) {
              const auto is = [&](int64_t s) { return (s < 0 ? s + v.shape.rank() : s) == axis; };
              if (std::none_of(summed.begin(), summed.end(), is)) rest.push_back(axis);
            }
            return rest;
          };
          const std::vector<int64_t> free_x = split(x, axes_a), free_y = split(y, axes_b);
          std::vector<int64_t> order_x = free_x, order_y = axes_b;
          order_x.insert(order_x.end(), axes_a.begin(), axes_a.end());
          order_y.insert(order_y.end(), free_y.begin(), free_y.end());
          Shape shape;
          int64_t rows = 1, columns = 1, inner = 1;
          for (const int64_t axis : free_x) shape.push_back(x.size(axis)), rows *= x.size(axis);
          for (const int64_t axis : free_y) shape.push_back(y.size(axis)), columns *= y.size(axis);
          for (const int64_t axis : axes_a) inner *= x.size(axis);
          return reshaped(multiplied(reshaped(permuted(x, order_x), {rows, inner}),
                                     reshaped(permuted(y, order_y), {inner, columns})),
                          shape);
        })};
  };
  return {.op = Op::tensordot,
          .cases = {make("empty", {0, 3}, {3, 2}, {1}, {0}), make("one", {1}, {1}, {0}, {0}),
                    make("matrices", {3, 5}, {5, 2}, {1}, {0}),
                    make("two_axes", {2, 3, 5}, {5, 2, 3}, {0, 2}, {1, 0}),
                    make("outer", {3}, {5}, {}, {}), make("all", {2, 3}, {3, 2}, {0, 1}, {1, 0}),
                    make("negative", {2, 5, 3}, {7, 5}, {-2}, {-1})},
          .large = make("large", {17, 31, 41}, {41, 17, 53}, {0, 2}, {1, 0}),
          .rounds = Rounds::each};
}

// Sums over every assignment of the letters that the result does not have. What only one of two
// operands has is summed away before they meet.
Array contracted(const std::string& equation, Arrays given) {
  const size_t arrow = equation.find("->"), comma = equation.find(',');
  const std::string out = equation.substr(arrow + 2);
  std::vector<std::string> terms = {equation.substr(0, std::min(arrow, comma))};
  if (comma != std::string::npos) terms.push_back(equation.substr(comma + 1, arrow - comma - 1));
  std::vector<Array> x(given.begin(), given.end());
  for (size_t t = 0; terms.size() == 2 && t < 2; ++t) {
    std::vector<int64_t> unshared;
    std::string kept;
    for (size_t axis = 0; axis < terms[t].size(); ++axis) {
      const bool met = (out + terms[1 - t]).find(terms[t][axis]) != std::string::npos;
      if (met) kept += terms[t][axis];
      if (!met) unshared.push_back(static_cast<int64_t>(axis));
    }
    terms[t] = kept;
    if (!unshared.empty())
      x[t] = reduce(x[t], unshared, false, [](std::span<const Real> line) { return sum(line); });
  }
  std::string letters = out;
  for (const std::string& term : terms) {
    for (const char c : term) {
      if (letters.find(c) == std::string::npos) letters += c;
    }
  }
  Shape space = Shape::filled(static_cast<int>(letters.size()), 1);
  for (size_t t = 0; t < terms.size(); ++t) {
    for (size_t axis = 0; axis < terms[t].size(); ++axis) {
      space[static_cast<int>(letters.find(terms[t][axis]))] = x[t].shape[static_cast<int>(axis)];
    }
  }
  Shape shape;
  for (size_t i = 0; i < out.size(); ++i) shape.push_back(space[static_cast<int>(i)]);
  Array y(shape);
  std::vector<std::vector<Real>> left(y.values.size()), right(y.values.size());
  const auto element = [&](size_t t, const Shape& at) {
    Shape index = x[t].shape;
    for (size_t axis = 0; axis < terms[t].size(); ++axis)
      index[static_cast<int>(axis)] = at[static_cast<int>(letters.find(terms[t][axis]))];
    return x[t](index);
  };
  for_each_index(space, [&](const Shape& at) {
    const auto place = static_cast<size_t>(y.flat(at));
    left[place].push_back(element(0, at));
    right[place].push_back(terms.size() == 2 ? element(1, at) : Real(1));
  });
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = terms.size() == 2 ? dot(left[i], right[i]) : sum(left[i]);
  return y;
}

Description einsums() {
  // `spelled` is the equation without ellipses and with its result.
  const auto make = [](const std::string& name, const std::string& equation,
                       const std::vector<Shape>& shapes, std::string spelled = {}) {
    if (spelled.empty()) spelled = equation;
    Case test{name,
              {},
              [=](std::span<const Tensor> x) { return std::vector<Tensor>{einsum(equation, x)}; },
              [=](Arrays x) { return std::vector<Array>{contracted(spelled, x)}; }};
    for (const Shape& shape : shapes) test.inputs.push_back({shape});
    return test;
  };
  return {.op = Op::einsum,
          .cases = {make("empty", "ij,jk->ik", {{0, 3}, {3, 2}}), make("one", "i,i->", {{1}, {1}}),
                    make("matrices", "ij,jk->ik", {{3, 5}, {5, 2}}),
                    make("batched", "bij,bjk->bik", {{2, 3, 5}, {2, 5, 2}}),
                    make("transposed", "bij,bkj->kib", {{2, 3, 5}, {2, 4, 5}}),
                    make("outer", "i,j->ji", {{3}, {5}}),
                    make("unshared", "ijk,jl->il", {{2, 3, 5}, {3, 2}}),
                    make("transposed", "ij->ji", {{3, 5}}), make("summed", "ijk->j", {{2, 3, 5}}),
                    make("elementwise", "ij,ij->ij", {{3, 5}, {3, 5}}),
                    make("heads", "bqhd,bkhd->bhqk", {{2, 3, 2, 5}, {2, 4, 2, 5}}),
                    make("diagonal", "ii->i", {{3, 3}}), make("trace", "ii->", {{5, 5}}),
                    make("diagonals", "iji,jj->ij", {{3, 2, 3}, {2, 2}}),
                    make("implicit", "kj, ji", {{3, 5}, {5, 2}}, "kj,ji->ik"),
                    make("implicit_trace", "ii", {{3, 3}}, "ii->"),
                    make("ellipsis", "...ij,...jk->...ik", {{2, 3, 5}, {2, 5, 2}}, "bij,bjk->bik"),
                    make("ellipsis_last", "i...->...", {{3, 2, 5}}, "ijk->jk"),
                    make("ellipsis_implicit", "...ij,jk", {{2, 3, 5}, {5, 2}}, "bij,jk->bik")},
          .large = make("large", "bij,bjk->bik", {{3, 61, 43}, {3, 43, 57}}),
          .rounds = Rounds::each};
}

Real activated(const Real& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return times_sign(x, x.value > 0 ? 1 : 0);
    case Activation::gelu:
      return x * normal_cdf(x);
    case Activation::gelu_tanh:
      return x *
             sigmoid((x + x * x * x * Real(0.044715)) * Real(2 * std::sqrt(2 / std::numbers::pi)));
    case Activation::silu:
      return x * sigmoid(x);
  }
  return x;
}

using Linear = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Activation);

Description linears(Linear f, Rounds rounds) {
  const auto make = [=](const std::string& name, const Shape& x, int64_t out, bool bias,
                        Activation activation) {
    const Shape weight{out, x.back()};
    Case test{name, {{x}, {weight}}, {}, {}};
    if (bias) test.inputs.push_back({{out}});
    test.call = [=](std::span<const Tensor> t) {
      return std::vector<Tensor>{f(t[0], t[1], bias ? t[2] : Tensor(), activation)};
    };
    test.reference = [=](Arrays a) {
      Shape shape = a[0].shape;
      shape[shape.rank() - 1] = out;
      Array y(shape);
      const int64_t in = a[0].size(-1);
      for (int64_t i = 0; i < y.numel(); ++i) {
        std::vector<Real> row, column;
        for (int64_t l = 0; l < in; ++l) {
          row.push_back(a[0][i / out * in + l]);
          column.push_back(a[1][i % out * in + l]);
        }
        Real v = dot(row, column);
        if (bias) v = v + a[2][i % out];
        // The value before the activation is kept in memory for the backward.
        y[i] = activation == Activation::none ? v : activated(stored(v), activation);
      }
      return std::vector<Array>{y};
    };
    return test;
  };
  return {.op = Op::linear,
          .cases = {make("empty", {0, 3}, 2, true, Activation::none),
                    make("empty_inner", {3, 0}, 2, true, Activation::none),
                    make("one", {1}, 1, true, Activation::none),
                    make("odd", {3, 5}, 7, true, Activation::none),
                    make("no_bias", {3, 5}, 7, false, Activation::none),
                    make("deep", {2, 3, 5}, 3, true, Activation::none),
                    make("relu", {3, 5}, 7, true, Activation::relu),
                    make("gelu", {3, 5}, 7, true, Activation::gelu),
                    make("gelu_tanh", {2, 3, 5}, 3, true, Activation::gelu_tanh),
                    make("silu", {3, 5}, 7, false, Activation::silu),
                    make("vector", {5}, 3, true, Activation::gelu)},
          .large = make("large", {5, 61, 131}, 71, true, Activation::gelu),
          .rounds = rounds};
}

Description bilinears() {
  const auto make = [](const std::string& name, const Shape& a, const Shape& b, int64_t out,
                       bool bias) {
    Case test{name, {{a}, {b}, {{out, a.back(), b.back()}}}, {}, {}};
    if (bias) test.inputs.push_back({{out}});
    test.call = [=](std::span<const Tensor> t) {
      return std::vector<Tensor>{bilinear(t[0], t[1], t[2], bias ? t[3] : Tensor())};
    };
    test.reference = [=](Arrays x) {
      const int64_t p = x[0].size(-1), q = x[1].size(-1);
      Shape shape = x[0].shape;
      shape[shape.rank() - 1] = out;
      Array y(shape);
      for (int64_t i = 0; i < y.numel(); ++i) {
        const int64_t row = i / out, o = i % out;
        std::vector<Real> terms;
        for (int64_t n = 0; n < q; ++n) {
          std::vector<Real> left, right;
          for (int64_t m = 0; m < p; ++m) {
            left.push_back(x[0][row * p + m]);
            right.push_back(x[2][(o * p + m) * q + n]);
          }
          terms.push_back(dot(left, right) * x[1][row * q + n]);
        }
        y[i] = sum(terms);
        if (bias) y[i] = y[i] + x[3][o];
      }
      return std::vector<Array>{y};
    };
    return test;
  };
  return {
      .op = Op::bilinear,
      .cases = {make("empty", {0, 3}, {0, 2}, 2, true), make("one", {1, 1}, {1, 1}, 1, true),
                make("odd", {3, 5}, {3, 2}, 3, true), make("deep", {2, 2, 3}, {2, 2, 5}, 2, false)},
      .large = make("large", {61, 13}, {61, 17}, 11, true),
      .rounds = Rounds::each};
}

}  // namespace

std::vector<Description> matmul_ops() {
  return {
      matmuls(),
      fixed_rank(Op::mm, mm, {{{0, 3}, {3, 2}}, {{1, 1}, {1, 1}}, {{3, 5}, {5, 7}}},
                 {{67, 131}, {131, 71}}),
      fixed_rank(Op::bmm, bmm,
                 {{{0, 2, 3}, {0, 3, 2}}, {{1, 1, 1}, {1, 1, 1}}, {{3, 2, 5}, {3, 5, 3}}},
                 {{5, 61, 43}, {5, 43, 57}}),
      fixed_rank(Op::mv, mv, {{{0, 3}, {3}}, {{3, 0}, {0}}, {{1, 1}, {1}}, {{5, 7}, {7}}},
                 {{503, 131}, {131}}),
      fixed_rank(Op::dot, binade::dot, {{{0}, {0}}, {{1}, {1}}, {{7}, {7}}, {{67}, {67}}},
                 {{50021}, {50021}}),
      added(Op::addmm, addmm,
            {{{{3}, {0, 2}, {2, 3}}},
             {{{1}, {1, 1}, {1, 1}}},
             {{{3, 7}, {3, 5}, {5, 7}}},
             {{{3, 1}, {3, 5}, {5, 2}}}},
            {{{71}, {67, 131}, {131, 71}}}),
      added(Op::baddbmm, baddbmm,
            {{{{3}, {0, 2, 2}, {0, 2, 3}}},
             {{{1}, {1, 1, 1}, {1, 1, 1}}},
             {{{2, 3, 3}, {2, 3, 5}, {2, 5, 3}}}},
            {{{5, 1, 57}, {5, 61, 43}, {5, 43, 57}}}),
      tensordots(),
      einsums(),
      linears(linear, Rounds::once),
      bilinears(),
  };
}

std::vector<Description> matmul_composites() { return {linears(linear_composite, Rounds::each)}; }

}  // namespace binade::optable
