#include "binade/backend/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/cpu/rows.h"
#include "binade/backend/cpu/softmax_rows.h"
#include "binade/base/parallel.h"

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

int64_t grain_for(int64_t classes) {
  return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, classes));
}

template <class T>
void cross_entropy_as(const TensorView& logits, const TensorView& target, double smoothing,
                      int64_t ignore_index, const TensorView& losses, const TensorView& lse) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const int64_t rows = target.numel(), classes = logits.shape.back();
  parallel_for(rows, grain_for(classes), [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(classes));
    for (int64_t row = begin; row < end; ++row) {
      const T* x = load(logits, row * classes, classes, scratch.data());
      const T max = math.max(x, classes);
      const T log_sum = std::log(math.exp_sum(x, max, classes));
      const T log_normalizer = max + log_sum;
      store(&log_normalizer, lse, row, 1);
      T loss = 0;
      const int64_t label = target_at(target, row);
      if (label != ignore_index) {
        // Differences from max first: they are small where the loss is.
        loss = (max - x[label]) + log_sum;
        if (smoothing > 0) {
          const T mean = math.gap_sum(x, max, classes) / static_cast<T>(classes) + log_sum;
          loss = static_cast<T>(1 - smoothing) * loss + static_cast<T>(smoothing) * mean;
        }
      }
      store(&loss, losses, row, 1);
    }
  });
}

void cross_entropy(TensorView logits, TensorView target, double smoothing, int64_t ignore_index,
                   TensorView losses, TensorView lse) {
  check_target("cross_entropy", target);
  with_compute_type("cross_entropy", logits.dtype, [&](auto tag) {
    cross_entropy_as<typename decltype(tag)::type>(logits, target, smoothing, ignore_index, losses,
                                                   lse);
  });
}

template <class T>
void cross_entropy_backward_as(const TensorView& dlosses, const TensorView& logits,
                               const TensorView& target, const TensorView& lse, double smoothing,
                               int64_t ignore_index, const TensorView& dlogits) {
  const SoftmaxRows<T>& math = softmax_rows<T>();
  const int64_t rows = target.numel(), classes = logits.shape.back();
  parallel_for(rows, grain_for(classes), [&](int64_t begin, int64_t end) {
    std::vector<T> scratch(static_cast<size_t>(classes));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * classes, label = target_at(target, row);
      T* out = row_target(dlogits, at, scratch.data());
      if (label == ignore_index) {
        std::fill_n(out, classes, T{0});
      } else {
        T loss_gradient, normalizer;
        loss_gradient = *load(dlosses, row, 1, &loss_gradient);
        normalizer = *load(lse, row, 1, &normalizer);
        math.exp_scaled(load(logits, at, classes, scratch.data()), normalizer, loss_gradient,
                        classes, out);
        if (smoothing > 0) {
          const T share = static_cast<T>(smoothing / static_cast<double>(classes)) * loss_gradient;
          for (int64_t i = 0; i < classes; ++i) out[i] -= share;
        }
        out[label] -= static_cast<T>(1 - smoothing) * loss_gradient;
      }
      store(out, dlogits, at, classes);
    }
  });
}

void cross_entropy_backward(TensorView dlosses, TensorView logits, TensorView target,
                            TensorView lse, double smoothing, int64_t ignore_index,
                            TensorView dlogits) {
  check_target("cross_entropy_backward", target);
  with_compute_type("cross_entropy_backward", logits.dtype, [&](auto tag) {
    cross_entropy_backward_as<typename decltype(tag)::type>(dlosses, logits, target, lse, smoothing,
                                                            ignore_index, dlogits);
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
                               .count_targets = count_targets};

}  // namespace binade::backend::cpu
