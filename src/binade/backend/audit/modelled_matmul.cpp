#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "binade/backend/audit/session.h"
#include "binade/backend/audit/tiles.h"
#include "binade/backend/gpu.h"
#include "binade/base/division.h"
#include "binade/base/parallel.h"
#include "binade/formats/number.h"
#include "binade/formats/tensor_core/tensor_core.h"

// A GPU's matmuls: the host reads the operands of a tile and computes it as tensor cores do.
namespace binade::backend::audit {
namespace {

namespace tc = formats::tensor_core;

struct Product {
  TensorView a, b, y;
  const Epilogue& epilogue;
  // Computes it into these places of y and the pre-activation.
  std::function<void(const TensorView& y, const TensorView& pre)> run;
};

std::optional<tc::Architecture> architecture_of(const Gpu& gpu) {
  const int capability = gpu.capability();
  if (capability < 80) return {};
  if (capability < 89) return tc::Architecture::ampere;
  if (capability < 90) return tc::Architecture::ada;
  return capability < 100 ? tc::Architecture::hopper : tc::Architecture::blackwell;
}

// The one type of a matmul's operands that are not both FP8, or that the GPU converts from it.
DType common_type(DType a, DType b) {
  if (is_quantized(a) && is_quantized(b)) return DType::bf16;
  if (is_quantized(a)) return b;
  return is_quantized(b) || a == b ? a : DType::f32;
}

// The tensor cores that compute this product; none: ordinary f32 units, or a GPU without a model.
std::optional<tc::Options> tensor_core_of(const Product& p) {
  constexpr int64_t fp8_multiple = 16;    // as in cuda/matmul/matmul.cpp
  constexpr int64_t fp8_promotion = 128;  // of cuBLASLt without fast accumulation, as measured
  const Gpu& gpu = gpus()[static_cast<size_t>(audit_session().device.index)];
  auto architecture = architecture_of(gpu);
  if (!architecture) return {};
  const DType a = p.a.dtype, b = p.b.dtype;
  const bool has_fp8 = gpu.capability() >= 89 && p.a.shape[2] % fp8_multiple == 0 &&
                       p.y.shape[2] % fp8_multiple == 0;
  if (is_quantized(a) && is_quantized(b) && has_fp8 && !(a == DType::e5m2 && b == DType::e5m2))
    return tc::Options{.architecture = *architecture,
                       .a = &format_of(a),
                       .b = &format_of(b),
                       .promote_every = p.epilogue.fast_accumulation ? 0 : fp8_promotion};
  if (*architecture == tc::Architecture::ada) architecture = tc::Architecture::ampere;
  const DType type = common_type(a, b);
  if (type == DType::f32 && !p.epilogue.tf32) return {};
  const formats::Format& format = type == DType::f32 ? formats::spec::tf32 : format_of(type);
  return tc::Options{.architecture = *architecture, .a = &format, .b = &format};
}

Tensor widened(const TensorView& host) {
  const Tensor wide = Tensor::empty(host.shape, DType::f32);
  of(Device::cpu()).elementwise.copy(host, wide);
  return wide;
}

// The values of a part of the device's data, in f32 on the host.
Tensor floats_of(const TensorView& part) {
  return part.present ? widened(on_host(part).view) : Tensor();
}

// What a result of this type holds of f32 values.
Tensor rounded(const Tensor& values, DType dtype) {
  const Tensor narrow = Tensor::empty(values.shape(), dtype);
  of(Device::cpu()).elementwise.copy(values, narrow);
  return narrow;
}

Tensor activated(const Tensor& x, Activation activation) {
  const auto function = [&] {
    switch (activation) {
      case Activation::gelu:
        return Unary::gelu;
      case Activation::gelu_tanh:
        return Unary::gelu_tanh;
      case Activation::silu:
        return Unary::silu;
      default:
        return Unary::relu;
    }
  }();
  const Tensor y = Tensor::empty_like(x);
  of(Device::cpu()).elementwise.unary(function, {}, x, y);
  return y;
}

// Half of the distance of numbers around 1.
double unit_of(DType dtype) {
  return std::ldexp(1.0, dtype == DType::bf16 ? -8 : dtype == DType::f16 ? -11 : -24);
}

// A tile on the host: what the model says of it, and how far any other order of its sums may be.
class ModelledTile {
 public:
  // `before` is what the tile of y held, if the product is added to it.
  ModelledTile(const Product& product, const Tile& tile, const TensorView& before)
      : core_(tensor_core_of(product)),
        a_(floats_of(only_matrix(tile.of_a(product.a)))),
        b_(floats_of(only_matrix(transposed(tile.of_b(product.b))))),
        before_(floats_of(tile.of(before))),
        bias_(floats_of(tile.of_bias(product.epilogue.bias))),
        scale_(product.epilogue.alpha),
        beta_(product.epilogue.beta),
        sums_(Tensor::empty({a_.size(0), b_.size(0)}, DType::f32)),
        result_(Tensor::empty_like(sums_)) {
    if (core_ && core_->a->name == formats::spec::tf32.name)
      for (const Tensor& x : {a_, b_}) round_operand(x);
    for (const TensorView& scale : {product.epilogue.scale_a, product.epilogue.scale_b})
      if (scale.present) scale_ *= *floats_of(scale).data<float>();
    multiply();
    for (int64_t at = 0; at < sums_.numel(); ++at)
      result_.mutable_data<float>()[at] = sums_.data<float>()[at] * scale_ + added(at);
  }

  // Before the activation, not yet rounded.
  const Tensor& result() const { return result_; }

  // How far a kernel that adds in another order may be from an element of the result. Every sum of
  // the hardware cuts its products and its accumulator below 2^-fraction_bits of the largest, and
  // its result below 2^-kept_bits; both orders do. Some kernels for tf32 may cut their operands.
  double bound(int64_t at) const {
    const int64_t k = a_.size(1);
    const float* const x = a_.data<float>() + at / result_.size(1) * k;
    const float* const y = b_.data<float>() + at % result_.size(1) * k;
    double magnitude = 0;
    for (int64_t i = 0; i < k; ++i) magnitude += std::abs(double{x[i]} * y[i]);
    const double finishing =
        std::abs(double{sums_.data<float>()[at]} * scale_) + std::abs(double{added(at)});
    return std::abs(scale_) * magnitude * order_bound(k) + std::ldexp(finishing, -21);
  }

 private:
  // cuBLASLt rounds to the nearest tf32 number, where the hardware would cut.
  static void round_operand(const Tensor& x) {
    auto* const values = x.mutable_data<float>();
    for (int64_t i = 0; i < x.numel(); ++i) values[i] = formats::round_tf32(values[i]);
  }

  void multiply() {
    const int64_t m = a_.size(0), n = b_.size(0), k = a_.size(1);
    const auto *const x = a_.data<float>(), *const y = b_.data<float>();
    auto* const sums = sums_.mutable_data<float>();
    if (core_)
      return tc::TensorCore(*core_).multiply({.a = x, .b = y, .d = sums, .m = m, .n = n, .k = k});
    parallel_for(m * n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += double{x[at / n * k + i]} * y[at % n * k + i];
        sums[at] = static_cast<float>(sum);
      }
    });
  }

  // Relative to the sum of the products' magnitudes.
  double order_bound(int64_t k) const {
    if (!core_) return 2 * std::ldexp(static_cast<double>(k + 1), -24);
    const tc::Unit& unit = tc::TensorCore(*core_).unit();
    const double sums = 1 + static_cast<double>(divide_up(k, int64_t{unit.products}));
    const double cut =
        std::ldexp(unit.products + 1.0, -unit.fraction_bits) + std::ldexp(1.0, -unit.kept_bits);
    const double operands = unit.operands == tc::OperandKind::tf32 ? 1.01 * 0x1p-9 : 0;
    return 2 * sums * cut + operands;
  }

  float added(int64_t at) const {
    const float old = before_.defined() ? beta_ * before_.data<float>()[at] : 0;
    return bias_.defined() ? old + bias_.data<float>()[at % result_.size(1)] : old;
  }

  std::optional<tc::Options> core_;
  Tensor a_, b_;  // [rows, k], [columns, k]
  Tensor before_, bias_;
  float scale_, beta_;
  Tensor sums_, result_;
};

struct Claim {
  const char* tensor;
  TensorView found;
  Tensor expected;  // f32, not yet rounded to the type of `found`
  std::function<double(int64_t)> bound;
};

// `unclear`: bits differ by no more than another order of the sums explains.
enum class Verdict : uint8_t { equal, unclear, reported };

// Compares a tile, and reports it if it differs by more than its bound.
Verdict judge(const AuditedKernel& kernel, const Tile& tile, const TensorView& whole,
              const Claim& claim) {
  const Copy codes = on_host(claim.found);
  const Tensor found = widened(codes.view), narrow = rounded(claim.expected, claim.found.dtype),
               expected = widened(narrow);
  const auto *const x = found.data<float>(), *const y = expected.data<float>();
  const auto differs = [&](int64_t at) {
    return formats::float_bits(x[at]) != formats::float_bits(y[at]) &&
           !(std::isnan(x[at]) && std::isnan(y[at]));
  };
  int64_t differing = 0, outside = 0, first = -1;
  for (int64_t at = 0; at < found.numel(); ++at) {
    if (!differs(at)) continue;
    ++differing;
    const double rounding = 2 * unit_of(claim.found.dtype) * std::abs(double{y[at]});
    if (std::abs(double{x[at]} - y[at]) <= claim.bound(at) + rounding) continue;
    if (outside++ == 0) first = at;
  }
  if (outside == 0) return differing == 0 ? Verdict::equal : Verdict::unclear;
  const int64_t columns = found.size(1);
  AuditMismatch mismatch{
      .kernel = kernel.source().kernel,
      .tensor = claim.tensor,
      .op = kernel.source().op,
      .index = tile.first_of(whole) + first / columns * whole.shape[2] + first % columns,
      .different = outside,
      .found = x[first],
      .expected = y[first]};
  const size_t size = size_of(narrow.dtype()), offset = static_cast<size_t>(first) * size;
  std::memcpy(&mismatch.found_bits, codes.view.as<const std::byte>() + offset, size);
  std::memcpy(&mismatch.expected_bits, static_cast<const std::byte*>(narrow.raw_data()) + offset,
              size);
  audit_session().options.on_mismatch(mismatch);
  return Verdict::reported;
}

Verdict compare_with_model(const AuditedKernel& kernel, const Product& p, const Tile& tile,
                           const TensorView& before) {
  const ModelledTile model(p, tile, before);
  const auto bound = [&](int64_t at) { return model.bound(at); };
  const Epilogue& e = p.epilogue;
  if (e.activation == Activation::none)
    return judge(kernel, tile, p.y, {"y", tile.of(p.y), model.result(), bound});
  Verdict verdict = Verdict::equal;
  if (e.pre_activation.present)
    verdict = judge(kernel, tile, p.y,
                    {"pre_activation", tile.of(e.pre_activation), model.result(), bound});
  if (verdict == Verdict::reported) return verdict;
  // GPUs apply it before or after rounding its argument, by exponentials of their own. No
  // activation is steeper than 1.13.
  const Tensor x = widened(rounded(model.result(), p.y.dtype));
  const auto after = [&](int64_t at) {
    return 1.13 * (bound(at) + unit_of(p.y.dtype) * std::abs(double{x.data<float>()[at]})) +
           0x1p-16;
  };
  const Verdict of_y =
      judge(kernel, tile, p.y, {"y", tile.of(p.y), activated(x, e.activation), after});
  return of_y == Verdict::equal ? verdict : of_y;
}

// Memory with the strides and the alignment of a view, on which the choice of a kernel depends.
Copy memory_like(const TensorView& view) {
  constexpr uintptr_t alignment = 256;
  Copy copy;
  if (!view.present) return copy;
  int64_t elements = 1;
  for (int axis = 0; axis < view.rank(); ++axis)
    elements += (view.shape[axis] - 1) * view.strides[axis];
  const memory::CategoryGuard category(memory::Category::workspace);
  copy.tensor = Tensor::empty(
      {elements * static_cast<int64_t>(size_of(view.dtype)) + static_cast<int64_t>(alignment)},
      DType::u8, audit_session().device);
  copy.view = view;
  auto* const begin = static_cast<std::byte*>(copy.tensor.raw_data());
  copy.view.data =
      begin +
      (reinterpret_cast<uintptr_t>(view.data) - reinterpret_cast<uintptr_t>(begin)) % alignment;
  return copy;
}

// Tiles that may have been added in another order than the model's are compared with a second run
// of the whole kernel: it has the same order, and so the same bits.
void run_audited(const Product& p) {
  const Tiles tiles(p.y);
  AuditedKernel kernel("matmul", tiles.count());
  Copy again;
  if (!kernel.chosen().empty() && p.epilogue.beta != 0) {
    again = memory_like(p.y);
    audit_session().plain.elementwise.copy(p.y, again.view);
  }
  p.run(p.y, p.epilogue.pre_activation);
  kernel.written(p.y);
  std::vector<Tile> unclear;
  for (const int64_t index : kernel.chosen())
    if (compare_with_model(kernel, p, tiles[index], again.view) == Verdict::unclear)
      unclear.push_back(tiles[index]);
  if (unclear.empty()) return;
  if (!again.view.present) again = memory_like(p.y);
  const Copy pre = memory_like(p.epilogue.pre_activation);
  p.run(again.view, pre.view);
  audit_session().counts.rounded += std::ssize(unclear);
  for (const Tile& tile : unclear) {
    const int64_t first = tile.first_of(p.y), columns = p.y.shape[2];
    kernel.compare({"y", tile.of(p.y), tile.of(again.view), first, columns});
    kernel.compare(
        {"pre_activation", tile.of(p.epilogue.pre_activation), tile.of(pre.view), first, columns});
  }
}

}  // namespace

void modelled_matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue) {
  const auto& plain = audit_session().plain.matmul;
  const bool is_wide = a.dtype == DType::f64 || b.dtype == DType::f64 || y.dtype == DType::f64;
  const bool is_empty = y.numel() == 0 || a.shape[2] == 0;
  if (!is_on() || has_groups(epilogue) || epilogue.scale_y.present || is_wide || is_empty)
    return plain.matmul(a, b, y, epilogue);
  run_audited({a, b, y, epilogue, [&](const TensorView& to, const TensorView& pre) {
                 Epilogue part = epilogue;
                 part.pre_activation = pre;
                 plain.matmul(a, b, to, part);
               }});
}

void modelled_matmul_swiglu(const LinearSwiGlu& args) {
  const auto& plain = audit_session().plain.matmul;
  if (!is_on() || args.x.numel() == 0) return plain.matmul_swiglu(args);
  const Epilogue epilogue{.bias = args.bias};
  const TensorView x = batch_of_one(args.x);
  const auto run = [&](const TensorView& to, const TensorView&) {
    if (to.data == x.data) return plain.matmul_swiglu(args);
    const Copy y = memory_like(args.y);
    LinearSwiGlu again = args;
    again.x = only_matrix(to);
    again.y = y.view;
    plain.matmul_swiglu(again);
  };
  run_audited({batch_of_one(args.a), transposed(batch_of_one(args.weight)), x, epilogue, run});
}

}  // namespace binade::backend::audit
