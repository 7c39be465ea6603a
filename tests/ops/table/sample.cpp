#include "binade/ops/conv/sample.h"

#include <algorithm>

#include "ops/table/description.h"

namespace binade::optable {
namespace {

Case nearest_case(const std::string& name, const Shape& x, int64_t height, int64_t width) {
  return {name,
          {{x}},
          call1([=](const Tensor& t) { return upsample_nearest2d(t, height, width); }),
          reference1([=](const Array& a) {
            Array y({x[0], x[1], height, width});
            for_each_index(y.shape, [&](const Shape& i) {
              y(i) = a({i[0], i[1], i[2] * x[2] / height, i[3] * x[3] / width});
            });
            return y;
          })};
}

// The blend of two neighbours along one axis of `lines`, its weights rounded to the tensor's type.
Real blended(FunctionRef<Real(int64_t)> pixel, int64_t in, int64_t out, int64_t i) {
  const double place = std::max(
      0.0,
      (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5);
  const int64_t low = std::min(static_cast<int64_t>(place), in - 1),
                high = std::min(low + 1, in - 1);
  const double part = place - static_cast<double>(low);
  const auto weight = [](double w) { return Real(w, precision().store * w, -1); };
  if (low == high) return dot(std::vector<Real>{pixel(low)}, std::vector<Real>{Real(1)});
  return dot(std::vector<Real>{pixel(low), pixel(high)},
             std::vector<Real>{weight(1 - part), weight(part)});
}

Case bilinear_case(const std::string& name, const Shape& x, int64_t height, int64_t width) {
  return {name,
          {{x}},
          call1([=](const Tensor& t) { return upsample_bilinear2d(t, height, width); }),
          reference1([=](const Array& a) {
            Array across({x[0], x[1], x[2], width}), y({x[0], x[1], height, width});
            for_each_index(across.shape, [&](const Shape& i) {
              across(i) = blended(
                  [&](int64_t at) {
                    return a({i[0], i[1], i[2], at});
                  },
                  x[3], width, i[3]);
            });
            for_each_index(y.shape, [&](const Shape& i) {
              y(i) = blended(
                  [&](int64_t at) {
                    return across({i[0], i[1], at, i[3]});
                  },
                  x[2], height, i[2]);
            });
            return y;
          })};
}

// Places a quarter or a half between pixels, some of them over the border.
Case grid_case(const std::string& name, const Shape& x, int64_t height, int64_t width) {
  const auto coordinate = [](double place, int64_t size) {
    return (2 * place + 1) / static_cast<double>(size) - 1;
  };
  Draw places;
  for (const double place : {-1.5, -0.5, 0.25, 0.5, 1.25, 1.5})
    places.among.push_back(coordinate(place, x[3]));
  return {name,
          {{x}, {{x[0], height, width, 2}, places}},
          call2(grid_sampler),
          reference2([=](const Array& a, const Array& grid) {
            Array y({x[0], x[1], height, width});
            for_each_index(y.shape, [&](const Shape& i) {
              Real weights[2][2];
              int64_t low[2];
              for (int axis = 0; axis < 2; ++axis) {
                const auto size = static_cast<double>(x[3 - axis]);
                const Real place =
                    grid({i[0], i[2], i[3], axis}) * Real(size / 2) + Real((size - 1) / 2);
                low[axis] = static_cast<int64_t>(std::floor(place.value));
                const Real part = place - Real(std::floor(place.value));
                weights[axis][0] = Real(1) - part;
                weights[axis][1] = part;
              }
              Real total;
              for (int corner = 0; corner < 4; ++corner) {
                const int64_t column = low[0] + corner % 2, line = low[1] + corner / 2;
                if (column < 0 || column >= x[3] || line < 0 || line >= x[2]) continue;
                total = total + a({i[0], i[1], line, column}) *
                                    (weights[1][corner / 2] * weights[0][corner % 2]);
              }
              y(i) = total;
            });
            return y;
          })};
}

}  // namespace

std::vector<Description> sampling_ops() {
  return {
      {.op = Op::upsample_nearest2d,
       .cases = {nearest_case("empty", {0, 2, 3, 3}, 5, 5), nearest_case("one", {1, 1, 1, 1}, 1, 1),
                 nearest_case("odd", {2, 3, 3, 2}, 7, 5),
                 nearest_case("smaller", {1, 2, 5, 7}, 3, 2)},
       .large = nearest_case("large", {3, 7, 17, 19}, 41, 43),
       .rounds = Rounds::each},
      {.op = Op::upsample_bilinear2d,
       .cases = {bilinear_case("empty", {0, 2, 3, 3}, 5, 5),
                 bilinear_case("one", {1, 1, 1, 1}, 1, 1), bilinear_case("odd", {2, 3, 3, 2}, 7, 5),
                 bilinear_case("smaller", {1, 2, 5, 7}, 3, 2)},
       .large = bilinear_case("large", {3, 7, 17, 19}, 41, 43),
       .rounds = Rounds::each},
      {.op = Op::grid_sampler,
       .cases = {grid_case("empty", {0, 2, 3, 3}, 2, 2), grid_case("no_places", {1, 2, 3, 3}, 0, 2),
                 grid_case("one", {1, 1, 1, 1}, 1, 1), grid_case("odd", {2, 3, 3, 3}, 3, 5),
                 grid_case("even", {1, 2, 4, 4}, 2, 3)},
       .large = grid_case("large", {3, 7, 17, 17}, 23, 29),
       .rounds = Rounds::each,
       .no_single = "a place has two coordinates"},
  };
}

}  // namespace binade::optable
