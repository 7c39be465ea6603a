#include "binade/ops/quantized/quantize.h"

#include <cmath>
#include <cstring>

#include "binade/amp/recipe/recipe.h"
#include "binade/backend/quantize_scale.h"
#include "binade/base/parallel.h"
#include "bindings.h"
#include "codec.h"

// binade.quantize: e4m3 and e5m2 through the engine's own kernels; other formats by the same rules.
namespace binade::python {
namespace {

struct Request {
  std::string format = "e4m3";
  ScaleGroup group = {};
  amp::ScaleRule rule = amp::ScaleRule::largest;
  double eps = 0;
  std::optional<double> scale;  // given: one scale for the tensor, as delayed recipes have

  bool is_mx() const { return !scale && rule == amp::ScaleRule::mx_floor; }
};

struct Result {
  Tensor codes, scale_inv, values;
};

Result by_engine(const Tensor& x, const Request& request, DType dtype) {
  const amp::TensorRecipe recipe{
      .format = format_of(dtype),
      .group = request.group,
      .scale = request.is_mx() ? formats::spec::e8m0 : formats::spec::f32,
      .rule = request.rule,
      .eps = request.eps};
  const Quantized q = request.scale ? quantize(x, *request.scale, dtype) : quantize(x, recipe);
  return {q.data, q.scale_inv, dequantize(q)};
}

// One group of elements in a format without kernels of its own.
class GroupEncoder {
 public:
  GroupEncoder(const Request& request, const Codec& codec) : request_(request), codec_(codec) {}

  // Writes codes and values of x[0 .. n) to the same places; returns scale_inv as stored.
  struct Scale {
    float scale_inv;
    uint8_t code;  // of MX
  };
  Scale choose(float amax) {
    if (request_.is_mx()) {
      mx_ = backend::mx_scale(amax, codec_.format->max_exponent());
      return {backend::scale_inv_value(mx_.code), mx_.code};
    }
    scale_ = request_.scale ? static_cast<float>(*request_.scale)
                            : backend::scale_for(
                                  amax, static_cast<float>(codec_.format->max()),
                                  {.eps = request_.eps,
                                   .power_of_two = request_.rule == amp::ScaleRule::power_of_two});
    return {1 / scale_, 0};
  }
  float apply(float x) const { return request_.is_mx() ? mx_.apply(x) : x * scale_; }

 private:
  const Request& request_;
  const Codec& codec_;
  backend::MxScale mx_ = {};
  float scale_ = 1;
};

// Finite values saturate. Infinities do not pass unseen: they stay infinite, or become NaN in a
// format without infinities; a format without NaN has nothing but its largest number.
Tensor encode_saturating(const Tensor& x, const Codec& codec) {
  Tensor codes = encode(x, codec, {.overflow = formats::Overflow::saturate});
  const Tensor special = encode(x, codec, {.overflow = formats::Overflow::special});
  const auto* values = static_cast<const float*>(x.raw_data());
  const auto* from = static_cast<const char*>(special.raw_data());
  auto* to = static_cast<char*>(codes.raw_data());
  const size_t size = size_of(codes.dtype());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::isinf(values[i])) std::memcpy(to + at, from + at, size);
  }
  return codes;
}

Result by_codec(const Tensor& x, const Request& request, const Codec& codec) {
  const ScaleGroup group = request.scale ? ScaleGroup{} : request.group;
  const ScaleGroup sized = sized_group(x.shape(), group);
  const Shape groups = scale_shape(x.shape(), group);
  Tensor scaled = Tensor::empty(x.shape(), DType::f32);
  Tensor scale_inv = Tensor::empty(groups, request.is_mx() ? DType::u8 : DType::f32);
  Tensor factors = Tensor::empty(x.shape(), DType::f32);
  const auto* from = static_cast<const float*>(x.raw_data());
  auto* to = static_cast<float*>(scaled.raw_data());
  auto* factor = static_cast<float*>(factors.raw_data());
  const int64_t rows = x.shape()[0], columns = x.shape()[1];
  parallel_for(groups.numel(), 1, [&](int64_t begin, int64_t end) {
    GroupEncoder encoder(request, codec);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t top = index / groups[1] * sized.rows, left = index % groups[1] * sized.columns;
      const int64_t bottom = std::min(rows, top + sized.rows),
                    right = std::min(columns, left + sized.columns);
      float amax = 0;
      for (int64_t row = top; row < bottom; ++row) {
        for (int64_t column = left; column < right; ++column)
          amax = backend::larger(amax, from[row * columns + column]);
      }
      const GroupEncoder::Scale scale = encoder.choose(amax);
      if (request.is_mx()) {
        static_cast<uint8_t*>(scale_inv.raw_data())[index] = scale.code;
      } else {
        static_cast<float*>(scale_inv.raw_data())[index] = scale.scale_inv;
      }
      for (int64_t row = top; row < bottom; ++row) {
        for (int64_t column = left; column < right; ++column) {
          to[row * columns + column] = encoder.apply(from[row * columns + column]);
          factor[row * columns + column] = scale.scale_inv;
        }
      }
    }
  });
  const Tensor codes = encode_saturating(scaled, codec);
  Tensor values = decode(codes, codec);
  auto* value = static_cast<float*>(values.raw_data());
  parallel_for(values.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) value[i] *= factor[i];
  });
  return {codes, scale_inv, values};
}

struct QuantizationError {
  double sqnr;
  int64_t saturated, underflowed;
};

// What quantization lost: the ratio of signal and noise over finite values, values whose magnitude
// shrank to the largest that their group can hold, and values that became zero.
QuantizationError measure(const Tensor& x, const Result& result, const Codec& codec) {
  const auto* before = static_cast<const float*>(x.raw_data());
  const auto* after = static_cast<const float*>(result.values.raw_data());
  const auto largest = static_cast<float>(codec.format->max());
  const Tensor stored = decode(result.codes, codec);
  const auto* unscaled = static_cast<const float*>(stored.raw_data());
  double signal = 0, noise = 0;
  QuantizationError error = {};
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (std::isfinite(before[i])) {
      const double difference = static_cast<double>(before[i]) - static_cast<double>(after[i]);
      signal += static_cast<double>(before[i]) * static_cast<double>(before[i]);
      noise += difference * difference;
    }
    const bool at_limit = std::abs(unscaled[i]) == largest;
    // Half a unit in the last place is rounding; more is saturation.
    const float half_step = largest * static_cast<float>(codec.format->epsilon()) / 2;
    const float scale_inv = at_limit ? std::abs(after[i]) / largest : 0;
    error.saturated += at_limit && std::abs(before[i]) - std::abs(after[i]) > half_step * scale_inv;
    error.underflowed += before[i] != 0 && after[i] == 0;
  }
  error.sqnr =
      noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  return error;
}

nb::tuple quantize_python(const Tensor& x, const Request& request) {
  Result result;
  QuantizationError error = {};
  {
    const nb::gil_scoped_release no_gil;
    const Codec& chosen = codec(request.format);
    const bool has_kernels = is_quantized(chosen.dtype);
    result = has_kernels ? by_engine(x, request, chosen.dtype) : by_codec(x, request, chosen);
    error = measure(x, result, chosen);
  }
  return nb::make_tuple(result.codes, result.scale_inv, result.values, error.sqnr, error.saturated,
                        error.underflowed);
}

amp::Role parse_role(const std::string& name) {
  for (const amp::Role role : {amp::Role::input, amp::Role::weight, amp::Role::gradient}) {
    if (amp::name(role) == name) return role;
  }
  fail("quantize",
       {.argument = "role", .expected = "input, weight or gradient", .found = "'" + name + "'"});
}

const amp::TensorRecipe& tensor_of(const amp::Recipe& recipe, const std::string& role) {
  const std::optional<amp::TensorRecipe>& tensor = recipe.tensors[parse_role(role)];
  if (!tensor)
    fail(
        "quantize",
        {.argument = "recipe", .expected = "one that quantizes the role " + role, .found = "none"});
  if (tensor->layout().outer)
    fail("quantize", {.argument = "recipe",
                      .expected = "one level of scales",
                      .found = "two in the recipe '" + recipe.name + "'"});
  return *tensor;
}

amp::ScaleRule parse_rule(const std::string& text) {
  if (const auto rule = amp::find_rule(text)) return *rule;
  fail("quantize", {.argument = "rule", .expected = "a recipe's rule", .found = "'" + text + "'"});
}

}  // namespace

void bind_quantize(nb::module_& m) {
  m.def(
      "_quantize",
      [](const Tensor& x, const std::string& format, std::pair<int64_t, int64_t> group,
         const std::string& rule, double eps, std::optional<double> scale) {
        return quantize_python(x, {.format = format,
                                   .group = {group.first, group.second},
                                   .rule = parse_rule(rule),
                                   .eps = eps,
                                   .scale = scale});
      },
      "x"_a, "format"_a, "group"_a, "rule"_a, "eps"_a, "scale"_a.none());
  // How a recipe quantizes a role: format, group, rule, eps, and the margin of delayed scales.
  m.def(
      "_tensor_recipe",
      [](const amp::Recipe& recipe, const std::string& role) {
        const amp::TensorRecipe& tensor = tensor_of(recipe, role);
        const std::optional<int> margin =
            tensor.is_delayed() ? std::optional(tensor.delayed().margin) : std::nullopt;
        return nb::make_tuple(std::string(tensor.format.name),
                              std::pair(tensor.group.rows, tensor.group.columns),
                              std::string(amp::name(tensor.rule)), tensor.eps, margin);
      },
      "recipe"_a, "role"_a);
}

}  // namespace binade::python
