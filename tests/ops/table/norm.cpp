#include "binade/ops/norm/norm.h"

#include "binade/ops/create/copy.h"
#include "ops/table/description.h"

namespace binade::optable {
namespace {

using Line = std::span<const Real>;

std::vector<Real> squares(Line x) {
  std::vector<Real> y;
  for (const Real& v : x) y.push_back(square(v));
  return y;
}

// (x - mean) / sqrt(var + eps), or x / sqrt(mean of squares + eps).
std::vector<Real> normalized(Line x, bool centered, double eps) {
  std::vector<Real> y(x.begin(), x.end());
  if (centered) {
    const Real average = mean(x);
    for (Real& v : y) v = v - average;
  }
  const Real scale = Real(1) / sqrt(mean(squares(y)) + Real(eps));
  for (Real& v : y) v = v * scale;
  return y;
}

// Weight and bias by channel; `channel` names the axis they run along.
Array scaled(const Array& x, const Array* weight, const Array* bias, int channel) {
  Array y = x;
  for_each_index(x.shape, [&](const Shape& index) {
    Real& v = y(index);
    if (weight != nullptr) v = v * (*weight)[index[channel]];
    if (bias != nullptr) v = v + (*bias)[index[channel]];
  });
  return y;
}

struct Parts {
  bool weight = true;
  bool bias = true;
  bool instances = false;  // instance norm rather than group norm
};

Case row_norm(const std::string& name, const Shape& x, bool layer, Parts parts, Draw draw = {}) {
  Case test{name, {{x, draw}}, {}, {}};
  if (parts.weight) test.inputs.push_back({{x.back()}});
  if (parts.bias) test.inputs.push_back({{x.back()}});
  test.call = [=](std::span<const Tensor> t) {
    const Tensor weight = parts.weight ? t[1] : Tensor(), bias = parts.bias ? t.back() : Tensor();
    return std::vector<Tensor>{layer ? layer_norm(t[0], weight, bias, 1e-3)
                                     : rms_norm(t[0], weight, 1e-3)};
  };
  test.reference = [=](Arrays a) {
    const Array y = along(a[0], -1, [&](Line line) { return normalized(line, layer, 1e-3); });
    return std::vector<Array>{
        scaled(y, parts.weight ? &a[1] : nullptr, parts.bias ? &a.back() : nullptr, x.rank() - 1)};
  };
  return test;
}

Description row_norms(Op op, bool layer) {
  const Parts all{true, layer}, none{false, false};
  Description description{
      .op = op,
      .cases = {row_norm("empty", {0, 3}, layer, all), row_norm("one", {1}, layer, all),
                row_norm("odd", {3, 7}, layer, all), row_norm("deep", {2, 3, 5}, layer, all),
                row_norm("plain", {3, 7}, layer, none),
                row_norm("shifted", {3, 7}, layer, all, {.low = 30, .high = 34}),
                row_norm("wide", {2, 67}, layer, all)},
      .large = row_norm("large", {211, 131}, layer, all)};
  description.cases.push_back(row_norm("weight_only", {3, 5}, layer, {true, false}));
  return description;
}

using Pair = std::pair<Tensor, Tensor>;
using ResidualLayerNorm = Pair (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   double);
using ResidualRmsNorm = Pair (*)(const Tensor&, const Tensor&, const Tensor&, double);

// One of the two is given.
struct ResidualNorm {
  ResidualLayerNorm layer = nullptr;
  ResidualRmsNorm rms = nullptr;
};

Case residual_norm(const std::string& name, const Shape& x, ResidualNorm f, bool residual) {
  const bool layer = f.layer != nullptr;
  Case test{name, {{x}, {{x.back()}}}, {}, {}};
  if (layer) test.inputs.push_back({{x.back()}});
  if (residual) test.inputs.push_back({x});
  test.call = [=](std::span<const Tensor> t) {
    const Tensor other = residual ? t.back() : Tensor();
    const auto [total, y] =
        layer ? f.layer(t[0], other, t[1], t[2], 1e-3) : f.rms(t[0], other, t[1], 1e-3);
    return std::vector<Tensor>{total, y};
  };
  test.reference = [=](Arrays a) {
    Array total = a[0];
    if (residual)
      total = zip(a[0], a.back(), [](const Real& l, const Real& r) { return stored(l + r); });
    const Array y = along(total, -1, [&](Line line) { return normalized(line, layer, 1e-3); });
    return std::vector<Array>{total, scaled(y, &a[1], layer ? &a[2] : nullptr, x.rank() - 1)};
  };
  return test;
}

Description residual_norms(Op op, ResidualNorm f) {
  return {
      .op = op,
      .cases = {residual_norm("empty", {0, 3}, f, true), residual_norm("one", {1}, f, true),
                residual_norm("odd", {3, 7}, f, true), residual_norm("deep", {2, 3, 5}, f, true),
                residual_norm("no_residual", {3, 7}, f, false)},
      .large = residual_norm("large", {211, 131}, f, true),
      .narrow_gradients = true};
}

// Statistics over everything but the channel, or the given running ones.
Case batch_case(const std::string& name, const Shape& x, bool training) {
  const int64_t c = x[1];
  Case test{
      name, {{x}, {{c}}, {{c}}, constant({c}), constant({c}, {.low = 0.5, .high = 2})}, {}, {}};
  test.inputs[3].dtype = DType::f32;
  test.inputs[4].dtype = DType::f32;
  test.call = [=](std::span<const Tensor> t) {
    return std::vector<Tensor>{batch_norm(t[0], t[1], t[2], clone(t[3]), clone(t[4]),
                                          {.training = training, .momentum = 0.25, .eps = 1e-3})};
  };
  test.reference = [=](Arrays a) {
    Array y(x);
    for (int64_t channel = 0; channel < c; ++channel) {
      std::vector<Real> line;
      std::vector<int64_t> places;
      for_each_index(x, [&](const Shape& index) {
        if (index[1] != channel) return;
        line.push_back(a[0](index));
        places.push_back(y.flat(index));
      });
      std::vector<Real> out;
      if (training) {
        out = normalized(line, true, 1e-3);
      } else {
        const Real scale = Real(1) / sqrt(a[4][channel] + Real(1e-3));
        for (const Real& v : line) out.push_back((v - a[3][channel]) * scale);
      }
      for (size_t i = 0; i < places.size(); ++i) y[places[i]] = out[i];
    }
    return std::vector<Array>{scaled(y, &a[1], &a[2], 1)};
  };
  return test;
}

Case group_case(const std::string& name, const Shape& x, int64_t groups, Parts parts) {
  const int64_t c = x[1];
  Case test{name, {{x}}, {}, {}};
  if (parts.weight) test.inputs.push_back({{c}});
  if (parts.bias) test.inputs.push_back({{c}});
  test.call = [=](std::span<const Tensor> t) {
    const Tensor weight = parts.weight ? t[1] : Tensor(), bias = parts.bias ? t.back() : Tensor();
    return std::vector<Tensor>{parts.instances ? instance_norm(t[0], weight, bias, 1e-3)
                                               : group_norm(t[0], groups, weight, bias, 1e-3)};
  };
  test.reference = [=](Arrays a) {
    const int64_t lines = x[0] * groups;
    const Array rows = reshaped(a[0], {lines, lines == 0 ? 0 : x.numel() / lines});
    const Array y =
        reshaped(along(rows, 1, [](Line line) { return normalized(line, true, 1e-3); }), x);
    return std::vector<Array>{
        scaled(y, parts.weight ? &a[1] : nullptr, parts.bias ? &a.back() : nullptr, 1)};
  };
  return test;
}

}  // namespace

std::vector<Description> norm_ops() {
  return {
      row_norms(Op::layer_norm, true),
      row_norms(Op::rms_norm, false),
      residual_norms(Op::residual_layer_norm, {.layer = residual_layer_norm}),
      residual_norms(Op::residual_rms_norm, {.rms = residual_rms_norm}),
      {.op = Op::batch_norm,
       .cases = {batch_case("empty", {0, 3, 2}, false), batch_case("one", {1, 1}, false),
                 batch_case("training", {3, 2, 5}, true), batch_case("rows", {5, 3}, true),
                 batch_case("planes", {2, 3, 3, 2}, true),
                 batch_case("evaluation", {3, 2, 5}, false)},
       .large = batch_case("large", {13, 11, 17, 19}, true),
       .narrow_gradients = true},
      {.op = Op::group_norm,
       .cases = {group_case("empty", {0, 4, 3}, 2, {}), group_case("one", {1, 1, 1}, 1, {}),
                 group_case("odd", {3, 6, 5}, 3, {}), group_case("rows", {3, 4}, 2, {}),
                 group_case("plain", {2, 4, 3}, 1, {false, false}),
                 group_case("planes", {2, 3, 3, 2}, 3, {})},
       .large = group_case("large", {13, 12, 17, 19}, 3, {}),
       .narrow_gradients = true},
      {.op = Op::instance_norm,
       .cases = {group_case("empty", {0, 4, 3}, 4, {.instances = true}),
                 group_case("one", {1, 1, 1}, 1, {.instances = true}),
                 group_case("odd", {3, 5, 7}, 5, {.instances = true}),
                 group_case("plain", {2, 4, 3, 2}, 4, {false, false, true})},
       .large = group_case("large", {13, 12, 17, 19}, 12, {.instances = true}),
       .narrow_gradients = true},
  };
}

std::vector<Description> norm_composites() {
  return {residual_norms(Op::residual_layer_norm, {.layer = residual_layer_norm_composite}),
          residual_norms(Op::residual_rms_norm, {.rms = residual_rms_norm_composite})};
}

}  // namespace binade::optable
