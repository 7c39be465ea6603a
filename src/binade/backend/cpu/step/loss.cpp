#include "binade/backend/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/norm/softmax_rows.h"
#include "binade/backend/cpu/rows/dense_rows.h"
#include "binade/backend/cpu/step/ctc.h"
#include "binade/base/parallel.h"
#include "binade/formats/convert.h"

namespace binade::backend::cpu {
namespace {

int64_t target_at(const TensorView& target, int64_t row) {
  return target.dtype == DType::i64 ? target.as<int64_t>()[row] : target.as<int32_t>()[row];
}

void check_target(const char* op, const TensorView& target) {
  if (target.dtype != DType::i64 && target.dtype != DType::i32) {
    fail(
        op,
        {.argument = "target", .expected = "i64 or i32", .found = std::string(name(target.dtype))});
  }
}

int64_t loss_rows_per_thread(int64_t classes) {
  return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, classes));
}

struct LossOptions {
  double smoothing;
  int64_t ignore_index, classes;
};

template <class T>
struct RowLoss {
  T loss, normalizer;
};

// The loss of a row of logits; 0 if its label is ignored.
template <class T>
RowLoss<T> loss_of(const T* x, int64_t label, const LossOptions& options) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const T max = math.max(x, options.classes);
  const T log_sum = std::log(math.exp_sum(x, max, options.classes));
  if (label == options.ignore_index) return {0, max + log_sum};
  // Subtracts from max first: the difference is small if the loss is.
  T loss = (max - x[label]) + log_sum;
  if (options.smoothing > 0) {
    const T mean =
        math.gap_sum(x, max, options.classes) / static_cast<T>(options.classes) + log_sum;
    loss = static_cast<T>(1 - options.smoothing) * loss + static_cast<T>(options.smoothing) * mean;
  }
  return {loss, max + log_sum};
}

// The gradient of a row of logits, which `out` may be; the label is not ignored.
template <class T>
void gradient_of(const T* x, int64_t label, T normalizer, T loss_gradient,
                 const LossOptions& options, T* out) {
  softmax_rows<T>().exp_scaled(x, normalizer, loss_gradient, options.classes, out);
  if (options.smoothing > 0) {
    const T smoothed =
        static_cast<T>(options.smoothing / static_cast<double>(options.classes)) * loss_gradient;
    for (int64_t i = 0; i < options.classes; ++i) out[i] -= smoothed;
  }
  out[label] -= static_cast<T>(1 - options.smoothing) * loss_gradient;
}

// Calls body(row, scratch of a row's size) for all rows.
template <class T, class F>
void for_each_row(int64_t rows, int64_t classes, F body) {
  parallel_for(rows, loss_rows_per_thread(classes), [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(classes));
    for (int64_t row = begin; row < end; ++row) body(row, scratch.data());
  });
}

void cross_entropy(const CrossEntropyForward& args) {
  check_target("cross_entropy", args.target);
  const TensorView& logits = args.logits;
  const LossOptions options{args.smoothing, args.ignore_index, logits.shape.back()};
  with_compute_type("cross_entropy", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row<T>(args.target.numel(), options.classes, [&](int64_t row, T* scratch) {
      const T* x = load(logits, row * logits.strides[0], options.classes, scratch);
      const RowLoss<T> found = loss_of(x, target_at(args.target, row), options);
      store(&found.normalizer, args.lse, row, 1);
      store(&found.loss, args.losses, row, 1);
    });
  });
}

void cross_entropy_backward(const CrossEntropyBackward& args) {
  check_target("cross_entropy_backward", args.target);
  const TensorView& logits = args.logits;
  const LossOptions options{args.smoothing, args.ignore_index, logits.shape.back()};
  with_compute_type("cross_entropy_backward", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row<T>(args.target.numel(), options.classes, [&](int64_t row, T* scratch) {
      const int64_t at = row * logits.strides[0], label = target_at(args.target, row);
      T* out = row_target(args.dlogits, at, scratch);
      if (label == args.ignore_index) {
        std::fill_n(out, options.classes, T{0});
      } else {
        T loss_gradient, normalizer;
        loss_gradient = *load(args.dlosses, row, 1, &loss_gradient);
        normalizer = *load(args.lse, row, 1, &normalizer);
        gradient_of(load(logits, at, options.classes, scratch), label, normalizer, loss_gradient,
                    options, out);
      }
      store(out, args.dlogits, at, options.classes);
    });
  });
}

// Quantizes a row of dlogits, which may lie in the same memory.
void quantize_gradient(const TensorView& dlogits, int64_t row, const QuantizedOutput& out) {
  const int64_t classes = dlogits.shape.back();
  std::vector<float> values(static_cast<size_t>(out.columns()));  // 0 past the classes
  const float* x = load(dlogits, row * dlogits.strides[0], classes, values.data());
  const float scale = *out.scale.as<float>();
  for (int64_t i = 0; i < classes; ++i) values[static_cast<size_t>(i)] = x[i] * scale;
  const auto narrow = [&](auto* data) {
    formats::narrow(values.data(), data + row * out.data.strides[0], values.size(),
                    formats::Rounding::nearest_even, formats::Overflow::saturate);
  };
  out.dtype() == DType::e4m3 ? narrow(out.data.as<e4m3>()) : narrow(out.data.as<e5m2>());
}

void cross_entropy_to_gradient(const CrossEntropyForward& args) {
  check_target("cross_entropy_to_gradient", args.target);
  const TensorView& logits = args.logits;
  const QuantizedOutput& quantized = args.quantized;
  const LossOptions options{args.smoothing, args.ignore_index, logits.shape.back()};
  with_compute_type("cross_entropy_to_gradient", logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row<T>(args.target.numel(), options.classes, [&](int64_t row, T* scratch) {
      const int64_t at = row * logits.strides[0], label = target_at(args.target, row);
      T* out = row_target(logits, at, scratch);
      T loss = 0;
      if (label == args.ignore_index) {
        std::fill_n(out, options.classes, T{0});
      } else {
        const T* x = load(logits, at, options.classes, scratch);
        const RowLoss<T> found = loss_of(x, label, options);
        gradient_of(x, label, found.normalizer, T{1}, options, out);
        loss = found.loss;
      }
      store(out, logits, at, options.classes);
      store(&loss, args.losses, row, 1);
      if (quantized.data.present) quantize_gradient(logits, row, quantized);
    });
  });
}

void count_targets(TensorView target, int64_t ignore_index, TensorView count) {
  check_target("count_targets", target);
  int64_t found = 0;
  for (int64_t i = 0; i < target.numel(); ++i) found += target_at(target, i) != ignore_index;
  const float value = static_cast<float>(found);
  store(&value, count, 0, 1);
}

}  // namespace

const LossKernels loss_kernels{.cross_entropy = cross_entropy,
                               .cross_entropy_backward = cross_entropy_backward,
                               .cross_entropy_to_gradient = cross_entropy_to_gradient,
                               .count_targets = count_targets,
                               .ctc = ctc,
                               .ctc_backward = ctc_backward};

}  // namespace binade::backend::cpu
