#include "binade/ops/conv/conv.h"

#include <algorithm>
#include <array>

#include "ops/table/description.h"

namespace binade::optable {
namespace {

int64_t per_axis(const PerAxis& values, int axis) {
  return values[values.size() == 1 ? 0 : static_cast<size_t>(axis)];
}

// The spatial part of a shape [n, c, spatial...].
Shape spatial(const Shape& shape) {
  Shape result;
  for (int axis = 2; axis < shape.rank(); ++axis) result.push_back(shape[axis]);
  return result;
}

Shape index_of(int64_t a, int64_t b, const Shape& rest) {
  Shape index{a, b};
  for (const int64_t i : rest) index.push_back(i);
  return index;
}

// Calls f(position in x, position in y) for each pair that one tap of the kernel joins: x = y *
// stride + tap * dilation - padding.
void for_each_tap(const Shape& x, const Shape& y, const Shape& tap, const ConvOptions& options,
                  FunctionRef<void(const Shape&, const Shape&)> f) {
  for_each_index(y, [&](const Shape& out) {
    Shape in = out;
    for (int axis = 0; axis < y.rank(); ++axis) {
      in[axis] = out[axis] * per_axis(options.stride, axis) +
                 tap[axis] * per_axis(options.dilation, axis) - per_axis(options.padding, axis);
      if (in[axis] < 0 || in[axis] >= x[axis]) return;
    }
    f(in, out);
  });
}

// Both directions are the same sums: y[o] of x[c] for a convolution, x[c] of y[o] for a transposed
// one.
Array convolved(Arrays a, const Shape& result, const ConvOptions& options, bool transposed) {
  const Array &x = a[0], &weight = a[1];
  Array y(result);
  std::vector<std::vector<Real>> left(y.values.size()), right(y.values.size());
  const Shape kernel = spatial(weight.shape);
  const int64_t in = x.size(1), out = y.size(1), groups = options.groups;
  const Shape wide = spatial(transposed ? y.shape : x.shape),
              narrow = spatial(transposed ? x.shape : y.shape);
  for (int64_t n = 0; n < x.size(0); ++n) {
    for (int64_t c = 0; c < in; ++c) {
      for (int64_t o = 0; o < out; ++o) {
        const int64_t group = c / (in / groups);
        if (o / (out / groups) != group) continue;
        for_each_index(kernel, [&](const Shape& tap) {
          const Real& w = weight(transposed ? index_of(c, o % (out / groups), tap)
                                            : index_of(o, c % (in / groups), tap));
          for_each_tap(
              wide, narrow, tap, options, [&](const Shape& at_wide, const Shape& at_narrow) {
                const auto place =
                    static_cast<size_t>(y.flat(index_of(n, o, transposed ? at_wide : at_narrow)));
                left[place].push_back(x(index_of(n, c, transposed ? at_narrow : at_wide)));
                right[place].push_back(w);
              });
        });
      }
    }
  }
  for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = dot(left[i], right[i]);
  if (a.size() == 3) {
    for_each_index(result, [&](const Shape& index) { y(index) = y(index) + a[2][index[1]]; });
  }
  return y;
}

using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using ConvTranspose = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                                 const ConvTransposeOptions&);

Case conv_case(Conv f, const std::string& name, const Shape& x, const Shape& weight, bool bias,
               const ConvOptions& options) {
  Shape result{x[0], weight[0]};
  for (int axis = 0; axis < x.rank() - 2; ++axis) {
    const int64_t reach = per_axis(options.dilation, axis) * (weight[2 + axis] - 1) + 1;
    result.push_back((x[2 + axis] + 2 * per_axis(options.padding, axis) - reach) /
                         per_axis(options.stride, axis) +
                     1);
  }
  Case test{name, {{x}, {weight}}, {}, {}};
  if (bias) test.inputs.push_back({{weight[0]}});
  test.call = [=](std::span<const Tensor> t) {
    return std::vector<Tensor>{f(t[0], t[1], bias ? t[2] : Tensor(), options)};
  };
  test.reference = [=](Arrays a) {
    return std::vector<Array>{convolved(a, result, options, false)};
  };
  return test;
}

Case transpose_case(ConvTranspose f, const std::string& name, const Shape& x, const Shape& weight,
                    bool bias, const ConvTransposeOptions& options) {
  const ConvOptions plain{options.stride, options.padding, options.dilation, options.groups};
  Shape result{x[0], weight[1] * options.groups};
  for (int axis = 0; axis < x.rank() - 2; ++axis) {
    result.push_back((x[2 + axis] - 1) * per_axis(options.stride, axis) -
                     2 * per_axis(options.padding, axis) +
                     per_axis(options.dilation, axis) * (weight[2 + axis] - 1) +
                     per_axis(options.output_padding, axis) + 1);
  }
  Case test{name, {{x}, {weight}}, {}, {}};
  if (bias) test.inputs.push_back({{weight[1] * options.groups}});
  test.call = [=](std::span<const Tensor> t) {
    return std::vector<Tensor>{f(t[0], t[1], bias ? t[2] : Tensor(), options)};
  };
  test.reference = [=](Arrays a) { return std::vector<Array>{convolved(a, result, plain, true)}; };
  return test;
}

// Pooling windows: the elements of x under each element of y, and how many a window has in all.
Array pooled(const Array& x, const PoolOptions& options,
             FunctionRef<Real(const std::vector<Real>&, int64_t)> f) {
  const PerAxis stride = options.stride.empty() ? options.kernel : options.stride;
  Shape result = x.shape, kernel;
  for (int axis = 0; axis < x.shape.rank() - 2; ++axis) {
    kernel.push_back(per_axis(options.kernel, axis));
    // Windows that start inside the input or its left padding, and end inside the right padding
    // unless the last one may reach past it.
    const int64_t padding = per_axis(options.padding, axis), step = per_axis(stride, axis),
                  end = x.shape[2 + axis] + padding;
    int64_t& count = result[2 + axis] = 0;
    for (int64_t start = -padding; start < end; start += step) {
      const bool fits = start + kernel[axis] <= end;
      const bool first_past = start - step + kernel[axis] < end;
      count += fits || (options.ceil_mode && first_past) ? 1 : 0;
    }
  }
  Array y(result);
  for_each_index(result, [&](const Shape& out) {
    std::vector<Real> window;
    int64_t whole = 1;
    for (int axis = 0; axis < kernel.rank(); ++axis) {
      const int64_t padding = per_axis(options.padding, axis),
                    start = out[2 + axis] * per_axis(stride, axis) - padding;
      whole *= std::min(start + kernel[axis], x.shape[2 + axis] + padding) - start;
    }
    for_each_index(kernel, [&](const Shape& tap) {
      Shape in = out;
      for (int axis = 0; axis < kernel.rank(); ++axis) {
        in[2 + axis] =
            out[2 + axis] * per_axis(stride, axis) + tap[axis] - per_axis(options.padding, axis);
        if (in[2 + axis] < 0 || in[2 + axis] >= x.shape[2 + axis]) return;
      }
      window.push_back(x(in));
    });
    y(out) = f(window, options.count_padding ? whole : static_cast<int64_t>(window.size()));
  });
  return y;
}

Description pools(Op op, Tensor (*f)(const Tensor&, const PoolOptions&),
                  const std::function<Real(const std::vector<Real>&, int64_t)>& of_window) {
  const auto make = [=](const std::string& name, const Shape& x, const PoolOptions& options) {
    return Case{name,
                {{x, {.distinct = true}}},
                call1([=](const Tensor& t) { return f(t, options); }),
                reference1([=](const Array& a) { return pooled(a, options, of_window); })};
  };
  Description description{
      .op = op,
      .cases = {make("empty", {0, 2, 4, 4}, {}), make("one", {1, 1, 1}, {.kernel = {1}}),
                make("line", {2, 3, 7}, {.kernel = {3}, .stride = {2}}),
                make("plane", {2, 3, 5, 6}, {}),
                make("overlapping", {1, 2, 5, 7}, {.kernel = {3}, .stride = {1}, .padding = {1}}),
                make("uneven", {1, 2, 7, 5},
                     {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}}),
                make("volume", {1, 2, 3, 4, 5}, {.kernel = {2, 2, 3}, .stride = {1, 2, 2}}),
                make("past_the_end", {1, 2, 5, 7}, {.kernel = {2}, .ceil_mode = true}),
                make("past_the_padding", {1, 1, 6, 5},
                     {.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true})},
      .large = make("large", {7, 13, 29, 31}, {.kernel = {3}, .stride = {2}, .padding = {1}}),
      .narrow_gradients = true};
  if (op == Op::avg_pool) {
    description.cases.push_back(
        make("border", {1, 2, 5, 7},
             {.kernel = {3}, .stride = {2}, .padding = {1}, .count_padding = false}));
  }
  return description;
}

Real window_maximum(const std::vector<Real>& window, int64_t) {
  Real best = window[0];
  for (const Real& v : window) best = v.value > best.value ? v : best;
  return best;
}

Real average(const std::vector<Real>& window, int64_t count) {
  return sum(window) / static_cast<double>(count);
}

}  // namespace

std::vector<Description> convolution_ops() {
  Description maxima = pools(Op::max_pool, max_pool, window_maximum);
  maxima.rounds = Rounds::each;  // exact, but for sums of gradients
  return {
      {.op = Op::conv1d,
       .cases = {conv_case(conv1d, "empty", {0, 2, 5}, {3, 2, 3}, true, {}),
                 conv_case(conv1d, "one", {1, 1, 1}, {1, 1, 1}, true, {}),
                 conv_case(conv1d, "odd", {2, 3, 7}, {5, 3, 3}, true, {}),
                 conv_case(conv1d, "no_bias", {2, 3, 7}, {2, 3, 3}, false, {}),
                 conv_case(conv1d, "stepping", {1, 2, 9}, {3, 2, 3}, true,
                           {.stride = {2}, .padding = {2}, .dilation = {2}}),
                 conv_case(conv1d, "groups", {2, 4, 5}, {6, 2, 3}, true,
                           {.padding = {1}, .groups = 2})},
       .large = conv_case(conv1d, "large", {5, 17, 203}, {23, 17, 5}, true, {.padding = {2}})},
      {.op = Op::conv2d,
       .cases = {conv_case(conv2d, "empty", {0, 2, 4, 4}, {3, 2, 3, 3}, true, {}),
                 conv_case(conv2d, "one", {1, 1, 1, 1}, {1, 1, 1, 1}, true, {}),
                 conv_case(conv2d, "odd", {2, 3, 5, 4}, {3, 3, 3, 3}, true, {.padding = {1}}),
                 conv_case(conv2d, "pointwise", {2, 3, 3, 5}, {5, 3, 1, 1}, true, {}),
                 conv_case(conv2d, "uneven", {1, 2, 7, 5}, {3, 2, 3, 2}, false,
                           {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}),
                 conv_case(conv2d, "depthwise", {1, 3, 5, 5}, {3, 1, 3, 3}, true,
                           {.stride = {2}, .padding = {1}, .groups = 3})},
       .large =
           conv_case(conv2d, "large", {3, 17, 19, 23}, {23, 17, 3, 3}, true, {.padding = {1}})},
      {.op = Op::conv3d,
       .cases = {conv_case(conv3d, "empty", {0, 2, 3, 3, 3}, {3, 2, 2, 2, 2}, true, {}),
                 conv_case(conv3d, "one", {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, true, {}),
                 conv_case(conv3d, "odd", {1, 2, 3, 4, 3}, {3, 2, 2, 3, 2}, true,
                           {.padding = {0, 1, 0}}),
                 conv_case(conv3d, "groups", {1, 2, 3, 3, 5}, {2, 1, 3, 1, 3}, false,
                           {.stride = {1, 2, 2}, .padding = {1}, .groups = 2})},
       .large =
           conv_case(conv3d, "large", {2, 7, 9, 11, 13}, {11, 7, 3, 3, 3}, true, {.padding = {1}})},
      {.op = Op::conv_transpose1d,
       .cases = {transpose_case(conv_transpose1d, "empty", {0, 2, 5}, {2, 3, 3}, true, {}),
                 transpose_case(conv_transpose1d, "one", {1, 1, 1}, {1, 1, 1}, true, {}),
                 transpose_case(conv_transpose1d, "odd", {2, 3, 5}, {3, 2, 3}, true, {}),
                 transpose_case(
                     conv_transpose1d, "stepping", {1, 2, 5}, {2, 3, 3}, false,
                     {.stride = {3}, .padding = {1}, .output_padding = {2}, .dilation = {2}}),
                 transpose_case(conv_transpose1d, "groups", {1, 4, 5}, {4, 3, 3}, true,
                                {.stride = {2}, .groups = 2})},
       .large = transpose_case(conv_transpose1d, "large", {5, 17, 103}, {17, 13, 5}, true,
                               {.stride = {2}, .padding = {2}}),
       .narrow_gradients = true},
      {.op = Op::conv_transpose2d,
       .cases = {transpose_case(conv_transpose2d, "empty", {0, 2, 3, 3}, {2, 3, 2, 2}, true, {}),
                 transpose_case(conv_transpose2d, "one", {1, 1, 1, 1}, {1, 1, 1, 1}, true, {}),
                 transpose_case(conv_transpose2d, "odd", {2, 3, 3, 4}, {3, 2, 3, 2}, true,
                                {.stride = {2}, .padding = {1, 0}, .output_padding = {1}}),
                 transpose_case(conv_transpose2d, "groups", {1, 2, 3, 3}, {2, 2, 3, 3}, false,
                                {.stride = {1, 2}, .padding = {1}, .groups = 2})},
       .large = transpose_case(conv_transpose2d, "large", {3, 17, 13, 11}, {17, 11, 3, 3}, true,
                               {.stride = {2}, .padding = {1}}),
       .narrow_gradients = true},
      {.op = Op::conv_transpose3d,
       .cases =
           {transpose_case(conv_transpose3d, "empty", {0, 2, 2, 2, 2}, {2, 3, 2, 2, 2}, true, {}),
            transpose_case(conv_transpose3d, "one", {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, true, {}),
            transpose_case(conv_transpose3d, "odd", {1, 2, 2, 3, 2}, {2, 3, 2, 3, 2}, true,
                           {.stride = {1, 2, 1}, .padding = {0, 1, 0}})},
       .large = transpose_case(conv_transpose3d, "large", {2, 7, 5, 7, 9}, {7, 5, 3, 3, 3}, true,
                               {.stride = {2}, .padding = {1}}),
       .narrow_gradients = true},
      maxima,
      pools(Op::avg_pool, avg_pool, average),
  };
}

}  // namespace binade::optable
