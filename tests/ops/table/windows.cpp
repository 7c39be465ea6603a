#include <algorithm>

#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/unfold.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

using List = std::vector<int64_t>;

int64_t one_of(const List& list, size_t axis) { return list[std::min(axis, list.size() - 1)]; }

// Calls f(column index, image index) for every element of every window inside the image.
void for_windows(const Shape& image, const WindowOptions& o,
                 FunctionRef<void(const Shape&, const Shape&)> f) {
  List count(2);
  for (size_t a = 0; a < 2; ++a) {
    const int64_t reach = one_of(o.dilation, a) * (one_of(o.kernel, a) - 1) + 1;
    count[a] =
        (image[2 + static_cast<int>(a)] + 2 * one_of(o.padding, a) - reach) / one_of(o.stride, a) +
        1;
  }
  const int64_t kh = one_of(o.kernel, 0), kw = one_of(o.kernel, 1);
  for_each_index({image[0], image[1], kh, kw, count[0], count[1]}, [&](const Shape& i) {
    const int64_t y = i[4] * one_of(o.stride, 0) + i[2] * one_of(o.dilation, 0) -
                      one_of(o.padding, 0),
                  x = i[5] * one_of(o.stride, 1) + i[3] * one_of(o.dilation, 1) -
                      one_of(o.padding, 1);
    const bool inside = y >= 0 && y < image[2] && x >= 0 && x < image[3];
    f({i[0], (i[1] * kh + i[2]) * kw + i[3], i[4] * count[1] + i[5]},
      inside ? Shape{i[0], i[1], y, x} : Shape{});
  });
}

Shape columns_shape(const Shape& image, const WindowOptions& o) {
  Shape shape{image[0], image[1] * one_of(o.kernel, 0) * one_of(o.kernel, 1), 0};
  for_windows({1, 1, image[2], image[3]}, o, [&](const Shape& column, const Shape&) {
    shape[2] = std::max(shape[2], column[2] + 1);
  });
  return shape;
}

Case unfold_case(const std::string& name, const Shape& image, const WindowOptions& o) {
  return {name,
          {{image}},
          call1([=](const Tensor& x) { return unfold(x, o); }),
          reference1([=](const Array& x) {
            Array y(columns_shape(image, o));
            for_windows(image, o, [&](const Shape& column, const Shape& at) {
              y(column) = at.rank() == 0 ? Real(0) : x(at);
            });
            return y;
          })};
}

Case fold_case(const std::string& name, const Shape& image, const WindowOptions& o) {
  return {name,
          {{columns_shape(image, o)}},
          call1([=](const Tensor& x) { return fold(x, image[2], image[3], o); }),
          reference1([=](const Array& x) {
            Array y(image);
            std::vector<std::vector<Real>> added(static_cast<size_t>(y.numel()));
            for_windows(image, o, [&](const Shape& column, const Shape& at) {
              if (at.rank() > 0) added[static_cast<size_t>(y.flat(at))].push_back(x(column));
            });
            for (int64_t i = 0; i < y.numel(); ++i) y[i] = sum(added[static_cast<size_t>(i)]);
            return y;
          })};
}

Description windows(Op op, Case (*make)(const std::string&, const Shape&, const WindowOptions&)) {
  return {.op = op,
          .cases = {make("empty", {0, 2, 4, 4}, {}), make("one", {1, 1, 1, 1}, {.kernel = {1}}),
                    make("odd", {2, 3, 5, 7}, {.kernel = {3}}),
                    make("padded", {1, 2, 5, 4}, {.kernel = {3, 2}, .padding = {1}}),
                    make("stepping", {1, 2, 7, 9}, {.kernel = {3}, .stride = {2, 3}}),
                    make("dilated", {1, 1, 7, 5},
                         {.kernel = {3, 2}, .padding = {1, 0}, .dilation = {2, 3}})},
          .large = make("large", {3, 5, 29, 31}, {.kernel = {3}, .padding = {1}})};
}

// Windows from floor(i * in / out) to ceil((i + 1) * in / out).
Case adaptive_case(const std::string& name, const Shape& shape, const List& sizes, bool maximum) {
  return {name,
          {{shape, {.distinct = true}}},
          call1([=](const Tensor& x) {
            return maximum ? adaptive_max_pool(x, sizes) : adaptive_avg_pool(x, sizes);
          }),
          reference1([=](const Array& x) {
            Shape result = shape;
            for (int axis = 2; axis < shape.rank(); ++axis)
              result[axis] = one_of(sizes, static_cast<size_t>(axis - 2));
            Array y(result);
            for_each_index(result, [&](const Shape& out) {
              Shape begin = out, extent = out;
              for (int axis = 0; axis < shape.rank(); ++axis) {
                extent[axis] = 1;
                if (axis < 2) continue;
                begin[axis] = out[axis] * shape[axis] / result[axis];
                extent[axis] =
                    ((out[axis] + 1) * shape[axis] + result[axis] - 1) / result[axis] - begin[axis];
              }
              std::vector<Real> window;
              for_each_index(extent, [&](const Shape& i) {
                Shape at = begin;
                for (int axis = 0; axis < shape.rank(); ++axis) at[axis] += i[axis];
                window.push_back(x(at));
              });
              y(out) = maximum ? *std::max_element(
                                     window.begin(), window.end(),
                                     [](const Real& a, const Real& b) { return a.value < b.value; })
                               : mean(window);
            });
            return y;
          })};
}

Description adaptive(Op op, bool maximum) {
  const auto make = [=](const std::string& name, const Shape& shape, const List& sizes) {
    return adaptive_case(name, shape, sizes, maximum);
  };
  return {.op = op,
          .cases = {make("empty", {0, 2, 4, 4}, {2}), make("one", {1, 1, 1}, {1}),
                    make("line", {2, 3, 7}, {3}), make("global", {2, 3, 5, 4}, {1}),
                    make("even", {1, 2, 6, 4}, {3, 2}), make("equal", {1, 2, 7, 5}, {3, 4}),
                    // Windows of 2, 3 and 2 elements, and of 2, 2, 3, 2 and 2.
                    make("unequal line", {2, 3, 5}, {3}), make("unequal", {1, 2, 5, 7}, {3, 5}),
                    make("larger", {1, 1, 2, 3}, {5, 3}), make("volume", {1, 2, 3, 4, 5}, {2})},
          .large = make("large", {5, 7, 29, 31}, {8, 7}),
          .rounds = Rounds::each};
}

}  // namespace

std::vector<Description> window_ops() {
  return {windows(Op::unfold, unfold_case), windows(Op::fold, fold_case),
          adaptive(Op::adaptive_avg_pool, false), adaptive(Op::adaptive_max_pool, true)};
}

}  // namespace binade::optable
