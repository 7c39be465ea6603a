#include "binade/backend/pool.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/values.h"
#include "binade/backend/cpu/kernels.h"

namespace binade::backend::cpu_pool_test {
namespace {

const PoolKernels& kernels = cpu::pool_kernels;

struct Case {
  int64_t images, channels;
  std::array<int64_t, 3> in;
  PoolGeometry geometry;
  std::array<int64_t, 3> extra{0, 0, 0};  // outputs beyond those whose windows fit: ceil mode

  int64_t out(size_t axis) const {
    return (in[axis] + 2 * geometry.padding[axis] - geometry.kernel[axis]) / geometry.stride[axis] +
           1 + extra[axis];
  }
  Shape x_shape() const { return {images, channels, in[0], in[1], in[2]}; }
  Shape y_shape() const { return {images, channels, out(0), out(1), out(2)}; }
  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out(0) * out(1) * out(2); }
};

const Case cases[] = {
    {2, 3, {1, 8, 8}, {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}},
    {1, 5, {1, 7, 9}, {.kernel = {1, 3, 3}, .stride = {1, 2, 2}, .padding = {0, 1, 1}}},
    {1,
     5,
     {1, 7, 9},
     {.kernel = {1, 3, 3}, .stride = {1, 1, 2}, .padding = {0, 1, 1}, .count_padding = false}},
    {2, 1, {1, 1, 13}, {.kernel = {1, 1, 4}, .stride = {1, 1, 3}}, {0, 0, 0}},
    {1, 2, {1, 6, 6}, {.kernel = {1, 3, 3}, .stride = {1, 2, 2}}, {0, 1, 1}},
    {1, 2, {1, 6, 6}, {.kernel = {1, 3, 3}, .stride = {1, 2, 2}, .padding = {0, 1, 1}}, {0, 1, 1}},
    {2, 2, {4, 5, 3}, {.kernel = {2, 3, 2}, .stride = {1, 2, 1}, .padding = {1, 0, 1}}},
    {1, 1, {1, 1, 1}, {}},
    {0, 3, {1, 4, 4}, {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}},
};

// Calls f(y, x) for each input that an output's window holds, both within their planes; x ascends.
template <class F>
void for_pairs(const Case& c, F&& f) {
  const PoolGeometry& g = c.geometry;
  int64_t y = 0;
  for (int64_t i = 0; i < c.out(0); ++i)
    for (int64_t j = 0; j < c.out(1); ++j)
      for (int64_t k = 0; k < c.out(2); ++k, ++y)
        for (int64_t x = 0; x < c.in_plane(); ++x) {
          const int64_t d = x / c.in[2] / c.in[1] - (i * g.stride[0] - g.padding[0]);
          const int64_t h = x / c.in[2] % c.in[1] - (j * g.stride[1] - g.padding[1]);
          const int64_t w = x % c.in[2] - (k * g.stride[2] - g.padding[2]);
          if (d >= 0 && h >= 0 && w >= 0 && d < g.kernel[0] && h < g.kernel[1] && w < g.kernel[2])
            f(y, x);
        }
}

// By what each output of a plane divides: the inputs of its window, or those and the padding that
// the window covers (which ends `padding` after the input).
Values counts(const Case& c) {
  Values count(static_cast<size_t>(c.out_plane()));
  if (!c.geometry.count_padding) {
    for_pairs(c, [&](int64_t y, int64_t) { ++count[static_cast<size_t>(y)]; });
    return count;
  }
  for (size_t y = 0; y < count.size(); ++y) {
    const auto at = static_cast<int64_t>(y);
    const int64_t place[] = {at / c.out(2) / c.out(1), at / c.out(2) % c.out(1), at % c.out(2)};
    count[y] = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
      const int64_t start = place[axis] * c.geometry.stride[axis] - c.geometry.padding[axis];
      const int64_t end = c.in[axis] + c.geometry.padding[axis];
      count[y] *= static_cast<double>(std::min(c.geometry.kernel[axis], end - start));
    }
  }
  return count;
}

TEST(CpuPool, MaxTakesTheFirstMaximum) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      // Few different values, all negative: ties are common and padding would win if it counted.
      Values values(static_cast<size_t>(c.x_shape().numel()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = -1.0 - random::bits(3, 1, i) % 4;
      const Tensor x = make(c.x_shape(), dtype, values), dy = noise(c.y_shape(), dtype, 2);
      const Tensor y = filled(c.y_shape(), dtype, NAN), index = filled(c.y_shape(), DType::i64, -7);
      const Tensor dx = filled(c.x_shape(), dtype, NAN);
      kernels.max_forward(x, c.geometry, y, index);
      kernels.max_backward(dy, index, dx);
      const Values gradient = read(dy);
      Values best(gradient.size(), -std::numeric_limits<double>::infinity()), place(best);
      Values sums(values.size()), bound(values.size());
      for (int64_t plane = 0; plane < c.images * c.channels; ++plane) {
        for_pairs(c, [&](int64_t out, int64_t in) {
          const auto to = static_cast<size_t>(plane * c.out_plane() + out);
          const double value = values[static_cast<size_t>(plane * c.in_plane() + in)];
          if (value > best[to]) {
            best[to] = value;
            place[to] = static_cast<double>(in);
          }
        });
      }
      for (size_t i = 0; i < best.size(); ++i) {
        const int64_t plane = static_cast<int64_t>(i) / c.out_plane();
        const auto to = static_cast<size_t>(plane * c.in_plane() + static_cast<int64_t>(place[i]));
        sums[to] += gradient[i];
        bound[to] +=
            static_cast<double>(c.out_plane()) * sum_epsilon(dtype) * std::abs(gradient[i]);
      }
      for (size_t i = 0; i < sums.size(); ++i) bound[i] += storage_error(dtype, sums[i]);
      EXPECT_EQ(read(y), best) << to_string(c.x_shape());
      EXPECT_EQ(read(index), place) << to_string(c.x_shape());
      expect_within(read(dx), sums, bound, "dx " + to_string(c.x_shape()));
    }
  }
}

TEST(CpuPool, MaxOfWindowsWithNanIsTheirFirstNan) {
  const Tensor x = make({1, 1, 1, 1, 6}, DType::f32, {5, NAN, NAN, 1, NAN, NAN});
  const Tensor y = filled({1, 1, 1, 1, 3}, DType::f32, 0);
  const Tensor index = filled({1, 1, 1, 1, 3}, DType::i64, 0);
  kernels.max_forward(x, {.kernel = {1, 1, 2}, .stride = {1, 1, 2}}, y, index);
  for (const double value : read(y)) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(read(index), (Values{1, 2, 4}));
}

TEST(CpuPool, MaxOfInfinitelySmallWindowsStillHasAPlace) {
  const Tensor x = filled({1, 1, 1, 1, 2}, DType::f32, -INFINITY);
  const Tensor y = filled({1, 1, 1, 1, 1}, DType::f32, 0),
               index = filled({1, 1, 1, 1, 1}, DType::i64, 9);
  kernels.max_forward(x, {.kernel = {1, 1, 2}}, y, index);
  EXPECT_EQ(read(y)[0], -INFINITY);
  EXPECT_EQ(read(index)[0], 0);
}

TEST(CpuPool, AverageFollowsItsDefinition) {
  for (const DType dtype : compute_types) {
    for (const Case& c : cases) {
      const Tensor x = noise(c.x_shape(), dtype, 1), dy = noise(c.y_shape(), dtype, 2);
      const Tensor y = filled(c.y_shape(), dtype, NAN), dx = filled(c.x_shape(), dtype, NAN);
      kernels.average_forward(x, c.geometry, y);
      kernels.average_backward(dy, c.geometry, dx);
      const Values in = read(x), gradient = read(dy), count = counts(c);
      Values forward(gradient.size()), forward_bound(forward), backward(in.size()),
          backward_bound(backward);
      const PoolGeometry& g = c.geometry;
      const double error =
          static_cast<double>(g.kernel[0] * g.kernel[1] * g.kernel[2] + 2) * sum_epsilon(dtype);
      for (int64_t plane = 0; plane < c.images * c.channels; ++plane) {
        for_pairs(c, [&](int64_t out, int64_t source) {
          const auto i = static_cast<size_t>(plane * c.in_plane() + source);
          const auto o = static_cast<size_t>(plane * c.out_plane() + out);
          const double divisor = count[static_cast<size_t>(out)];
          forward[o] += in[i] / divisor;
          forward_bound[o] += error * std::abs(in[i]) / divisor;
          backward[i] += gradient[o] / divisor;
          backward_bound[i] += error * std::abs(gradient[o]) / divisor;
        });
      }
      for (size_t i = 0; i < forward.size(); ++i)
        forward_bound[i] += storage_error(dtype, forward[i]);
      for (size_t i = 0; i < backward.size(); ++i)
        backward_bound[i] += storage_error(dtype, backward[i]);
      expect_within(read(y), forward, forward_bound, "y " + to_string(c.x_shape()));
      expect_within(read(dx), backward, backward_bound, "dx " + to_string(c.x_shape()));
    }
  }
}

TEST(CpuPool, IsTheSameForAnyNumberOfThreads) {
  const Case& c = cases[1];
  const Tensor x = noise(c.x_shape(), DType::f32, 1), dy = noise(c.y_shape(), DType::f32, 2);
  const auto run = [&](int threads) {
    ThreadCount count(threads);
    std::vector<Tensor> out{filled(c.y_shape(), DType::f32, 0), filled(c.y_shape(), DType::i64, 0),
                            filled(c.x_shape(), DType::f32, 0), filled(c.y_shape(), DType::f32, 0),
                            filled(c.x_shape(), DType::f32, 0)};
    kernels.max_forward(x, c.geometry, out[0], out[1]);
    kernels.max_backward(dy, out[1], out[2]);
    kernels.average_forward(x, c.geometry, out[3]);
    kernels.average_backward(dy, c.geometry, out[4]);
    return out;
  };
  const std::vector<Tensor> one = run(1);
  for (const int threads : {2, 8}) {
    const std::vector<Tensor> many = run(threads);
    for (size_t i = 0; i < one.size(); ++i) expect_same_bits(one[i], many[i], std::to_string(i));
  }
}

}  // namespace
}  // namespace binade::backend::cpu_pool_test
