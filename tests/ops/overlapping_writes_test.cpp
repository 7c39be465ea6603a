#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <valarray>

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/index.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/tensors.h"
#include "support/thread_count.h"

// Random pairs of slices, transposes and steps of one tensor: one is written with values computed
// from both. The oracle knows a view as a list of element numbers, and reads all before it writes.
namespace binade {
namespace {

using Random = std::mt19937_64;

int64_t draw(Random& random, int64_t low, int64_t high) {  // both included
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A random view, made by ops.
Tensor random_view(const Tensor& x, Random& random) {
  Tensor y = x;
  for (int64_t steps = draw(random, 0, 3); steps > 0; --steps) {
    const int64_t axis = draw(random, 0, y.rank() - 1), size = y.size(axis);
    switch (draw(random, 0, 3)) {
      case 0:
        y = transpose(y, axis, draw(random, 0, y.rank() - 1));
        break;
      case 1:
        if (y.rank() > 2) y = select(y, axis, draw(random, 0, size - 1));
        break;
      default: {
        const int64_t begin = draw(random, 0, size / 2);
        y = slice(y, axis, begin, draw(random, begin + 1, size), draw(random, 1, 2));
      }
    }
  }
  while (y.rank() > 2) y = select(y, 0, draw(random, 0, y.size(0) - 1));
  return y;
}

// Views of one shape; the source may broadcast.
struct Pair {
  Tensor target, source;
};

Pair random_pair(const Tensor& x, Random& random) {
  Tensor target = random_view(x, random), source = random_view(x, random);
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t size = std::min(target.size(axis), source.size(axis));
    target = slice(target, axis, 0, size);
    source = slice(source, axis, 0, draw(random, 0, 7) == 0 ? 1 : size);
  }
  return {target, source};
}

// The numbers of the elements in memory, in row-major order of `shape`.
std::vector<size_t> elements_of(const Tensor& view, const Shape& shape) {
  std::vector<size_t> result;
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      const int64_t row = view.size(0) == 1 ? 0 : i, column = view.size(1) == 1 ? 0 : j;
      result.push_back(static_cast<size_t>(view.offset() + row * view.strides()[0] +
                                           column * view.strides()[1]));
    }
  }
  return result;
}

enum class Write { copy, add, subtract, multiply, add_scaled, last = add_scaled };

void apply(Write write, Tensor target, const Tensor& source) {
  if (write == Write::copy) copy_(target, source);
  if (write == Write::add) target += source;
  if (write == Write::subtract) target -= source;
  if (write == Write::multiply) target *= source;
  if (write == Write::add_scaled) add_(target, source, 3);
}

template <class T>
T result_of(Write write, T a, T b) {
  if (write == Write::copy) return b;
  if (write == Write::add) return a + b;
  if (write == Write::subtract) return a - b;
  if (write == Write::multiply) return a * b;
  return a + 3 * b;
}

TEST(OverlappingWrites, AgreeWithCopyingFirst) {
  const Shape shapes[] = {{5, 7}, {3, 4, 5}, {16, 16}, {2, 40, 40}, {150, 150}};
  Random random(1);
  int differences = 0;
  for (int pair = 0; pair < 10000; ++pair) {
    const int64_t kind = draw(random, 0, 99);  // large ones, which threads share, are slow to check
    const Shape& shape = shapes[kind < 40 ? 0 : kind < 80 ? 1 : kind < 96 ? 2 : kind < 99 ? 3 : 4];
    const ThreadCount threads(static_cast<int>(draw(random, 1, 4)));
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (double& value : values) value = static_cast<double>(draw(random, -50, 50));
    const Tensor x = tensor(values, shape, draw(random, 0, 1) == 0 ? DType::f32 : DType::i64);
    const auto [target, source] = random_pair(x, random);
    const auto write = static_cast<Write>(draw(random, 0, static_cast<int>(Write::last)));
    const auto to = elements_of(target, target.shape()), from = elements_of(source, target.shape());
    std::vector<double> expected = values;
    for (size_t i = 0; i < to.size(); ++i)
      expected[to[i]] = result_of(write, values[to[i]], values[from[i]]);
    apply(write, target, source);
    differences += to_vector(x) != expected;
  }
  EXPECT_EQ(differences, 0);
}

using Row = std::valarray<double>;

// The rows at `elements`, each multiplied with its weight, added up.
Row weighted_sum(const std::vector<Row>& rows, const std::vector<size_t>& elements) {
  Row sum(0.0, rows.size());
  for (size_t i = 0; i < elements.size(); ++i)
    sum += static_cast<double>(i + 1) * rows[elements[i]];
  return sum;
}

Tensor weighted_sum(const Tensor& x) {
  const Tensor weights = arange(x.numel(), DType::f64) + 1;
  return sum(reshape(x, {-1}) * weights);
}

// A tensor after random recorded writes, each of a view, of values from itself or from w. It is
// linear in w: the oracle keeps the coefficients of each element.
struct Written {
  Tensor x;
  std::vector<Row> rows;

  Written(const Tensor& w, bool starts_in_graph)
      : x(starts_in_graph ? w * 2 : zeros(w.shape(), DType::f64)),
        rows(static_cast<size_t>(w.numel()), Row(0.0, static_cast<size_t>(w.numel()))) {
    for (size_t i = 0; starts_in_graph && i < rows.size(); ++i) rows[i][i] = 2;
  }

  void write(const Tensor& w, Random& random) {
    const auto [target, own] = random_pair(x, random);
    const bool from_w = draw(random, 0, 2) == 0;
    const Tensor source = from_w ? random_like(w, own) : own;
    const Write kind = std::array{Write::copy, Write::add, Write::subtract,
                                  Write::add_scaled}[static_cast<size_t>(draw(random, 0, 3))];
    const auto to = elements_of(target, target.shape()), from = elements_of(own, target.shape());
    const std::vector<Row> before = rows;
    for (size_t i = 0; i < to.size(); ++i) {
      Row read = before[from[i]];
      if (from_w) {
        read = 0;
        read[from[i]] = 1;
      }
      rows[to[i]] = result_of<Row>(kind, before[to[i]], read);
    }
    apply(kind, target, source);
  }

  // The elements of w at the places of a view of x.
  static Tensor random_like(const Tensor& w, const Tensor& view) {
    std::vector<int64_t> elements;
    for (const size_t element : elements_of(view, view.shape()))
      elements.push_back(static_cast<int64_t>(element));
    const Tensor at = tensor(elements, {static_cast<int64_t>(elements.size())});
    return reshape(index_select(reshape(w, {-1}), 0, at), view.shape());
  }
};

TEST(OverlappingWrites, AreLinearMapsInTheGraph) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    const Shape shape = draw(random, 0, 1) == 0 ? Shape{3, 4} : Shape{2, 3, 3};
    Tensor w = ones(shape, DType::f64);
    w.set_requires_grad();
    Written written(w, draw(random, 0, 1) == 0);
    const Tensor early = random_view(written.x, random);
    for (int64_t writes = draw(random, 1, 4); writes > 0; --writes) written.write(w, random);
    const Tensor late = random_view(written.x, random);
    for (const Tensor& view : {early, late}) {
      w.zero_grad();
      const Row expected = weighted_sum(written.rows, elements_of(view, view.shape()));
      const Tensor total = weighted_sum(view);
      EXPECT_EQ(total.item(), expected.sum());
      if (!total.requires_grad()) {
        EXPECT_EQ(std::abs(expected).sum(), 0);
        continue;
      }
      total.backward({}, RetainGraph::yes);
      EXPECT_THAT(test::read(w.grad()), testing::ElementsAreArray(begin(expected), end(expected)));
    }
  }
}

}  // namespace
}  // namespace binade
