#include "binade/ops/loss/loss.h"

#include "binade/ops/loss/ctc_loss.h"
#include "bindings.h"
#include "enums.h"

namespace binade::python {
namespace {

void bind_cross_entropy(nb::module_& m) {
  m.def(
      "cross_entropy",
      [](const Tensor& x, const Tensor& target, const MaybeTensor& weight,
         const std::string& reduction, double label_smoothing, int64_t ignore_index,
         std::optional<int64_t> class_axis) {
        return cross_entropy(x, target,
                             {.reduce = parse_reduce(reduction),
                              .smoothing = label_smoothing,
                              .ignore_index = ignore_index,
                              .weight = or_undefined(weight),
                              .class_axis = class_axis});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "reduction"_a = "mean",
      "label_smoothing"_a = 0.0, "ignore_index"_a = -100, "class_axis"_a = nb::none(), ReleaseGil(),
      summary("cross_entropy").c_str());
  m.def(
      "linear_cross_entropy",
      [](const Tensor& x, const Tensor& weight, const Tensor& target, const std::string& reduction,
         double label_smoothing, int64_t ignore_index, int64_t chunk_rows) {
        return linear_cross_entropy(x, weight, target,
                                    {.reduce = parse_reduce(reduction),
                                     .smoothing = label_smoothing,
                                     .ignore_index = ignore_index},
                                    chunk_rows);
      },
      "input"_a, "weight"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean",
      "label_smoothing"_a = 0.0, "ignore_index"_a = -100, "chunk_rows"_a = 0, ReleaseGil(),
      summary("linear_cross_entropy").c_str());
}

}  // namespace

void bind_losses(nb::module_& m) {
  bind_cross_entropy(m);
  m.def(
      "ctc_loss",
      [](const Tensor& log_probs, const Tensor& targets, const std::vector<int64_t>& input_lengths,
         const std::vector<int64_t>& target_lengths, int64_t blank, const std::string& reduction,
         bool zero_infinity) {
        return ctc_loss(
            log_probs, targets, {input_lengths, target_lengths},
            {.reduce = parse_reduce(reduction), .blank = blank, .zero_infinity = zero_infinity});
      },
      "log_probs"_a, "targets"_a, "input_lengths"_a, "target_lengths"_a, "blank"_a = 0,
      "reduction"_a = "mean", "zero_infinity"_a = false, ReleaseGil(), summary("ctc_loss").c_str());
}

}  // namespace binade::python
