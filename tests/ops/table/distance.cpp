#include "binade/ops/loss/distance.h"

#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

Real length(Line x) {
  std::vector<Real> squares;
  for (const Real& v : x) squares.push_back(square(v));
  return sqrt(sum(squares));
}

Description similarities() {
  const auto make = [](const std::string& name, const Shape& shape, int64_t axis) {
    return Case{
        name,
        {{shape, {.gap = 0.25}}, {shape, {.gap = 0.25}}},
        call2([=](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b, axis); }),
        reference2([=](const Array& a, const Array& b) {
          const auto unit = [=](Line line) {
            const Real size = length(line);
            std::vector<Real> y;
            for (const Real& v : line) y.push_back(v / size);
            return y;
          };
          const Array products = zip(along(a, axis, unit), along(b, axis, unit),
                                     [](const Real& x, const Real& y) { return x * y; });
          return reduce(products, {axis}, false, [](Line line) { return sum(line); });
        })};
  };
  return {.op = Op::cosine_similarity,
          .cases = {make("empty", {0, 3}, -1), make("one", {1}, 0), make("rows", {3, 7}, -1),
                    make("columns", {5, 3}, 0), make("inner", {2, 5, 3}, 1)},
          .large = make("large", {211, 131}, -1),
          .rounds = Rounds::each};
}

Description distances() {
  const auto make = [](const std::string& name, const Shape& a, const Shape& b) {
    return Case{name,
                {{a}, {b, {.low = 2.25, .high = 4}}},
                call2(cdist),
                reference2([](const Array& x, const Array& y) {
                  const int64_t m = x.size(-2), n = y.size(-2), d = x.size(-1);
                  Shape shape = x.shape;
                  shape[shape.rank() - 1] = n;
                  Array z(shape);
                  for (int64_t i = 0; i < z.numel(); ++i) {
                    const int64_t batch = i / (m * n), r = i / n % m, c = i % n;
                    std::vector<Real> line;
                    for (int64_t l = 0; l < d; ++l)
                      line.push_back(x[(batch * m + r) * d + l] - y[(batch * n + c) * d + l]);
                    z[i] = length(line);
                  }
                  return z;
                })};
  };
  return {.op = Op::cdist,
          .cases = {make("empty", {0, 3}, {2, 3}), make("one", {1, 1}, {1, 1}),
                    make("odd", {3, 5}, {2, 5}), make("batches", {2, 3, 2}, {2, 4, 2})},
          .large = make("large", {61, 17}, {53, 17}),
          .rounds = Rounds::each};
}

Description crosses() {
  const auto make = [](const std::string& name, const Shape& shape, int64_t axis) {
    return Case{name,
                {{shape}, {shape}},
                call2([=](const Tensor& a, const Tensor& b) { return cross(a, b, axis); }),
                reference2([=](const Array& a, const Array& b) {
                  const int at = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
                  Array y(shape);
                  for_each_index(shape, [&](const Shape& i) {
                    Shape next = i, last = i;
                    next[at] = (i[at] + 1) % 3;
                    last[at] = (i[at] + 2) % 3;
                    y(i) = a(next) * b(last) - a(last) * b(next);
                  });
                  return y;
                })};
  };
  return {.op = Op::cross,
          .cases = {make("empty", {0, 3}, -1), make("three", {3}, 0), make("rows", {5, 3}, -1),
                    make("columns", {3, 7}, 0)},
          .large = make("large", {20011, 3}, -1),
          .rounds = Rounds::each,
          .no_single = "it takes three components"};
}

}  // namespace

std::vector<Description> distance_ops() { return {similarities(), distances(), crosses()}; }

}  // namespace binade::optable
