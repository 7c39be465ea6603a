#include "binade/ops/loss/loss.h"

#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/margin_loss.h"
#include "bindings.h"
#include "enums.h"

namespace binade::python {
namespace {

struct LossEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&, Reduce);
  const char* doc;
};

constexpr LossEntry loss_table[] = {
    {"mse_loss", mse_loss, "(x - target)^2."},
    {"l1_loss", l1_loss, "|x - target|."},
    {"binary_cross_entropy", binary_cross_entropy,
     "On probabilities; refused under autocast, where bce_with_logits is safe."},
    {"soft_margin_loss", soft_margin_loss, "log(1 + exp(-target x))."},
};

struct ShapedLossEntry {
  const char* name;
  const char* parameter;
  Tensor (*run)(const Tensor&, const Tensor&, Reduce, double);
  const char* doc;
};

constexpr ShapedLossEntry shaped_table[] = {
    {"smooth_l1_loss", "beta", smooth_l1_loss, "Squared below `beta`, linear above."},
    {"huber_loss", "delta", huber_loss, "Squared below `delta`, linear above."},
};

struct MarginEntry {
  const char* name;
  Tensor (*run)(const Tensor&, const Tensor&, double, Reduce);
  const char* doc;
};

constexpr MarginEntry margin_table[] = {
    {"multi_margin_loss", multi_margin_loss,
     "Mean over the other classes of max(0, margin - x[target] + x[class])."},
    {"hinge_embedding_loss", hinge_embedding_loss,
     "x where target is 1, max(0, margin - x) where it is -1."},
};

void bind_cross_entropy(nb::module_& m) {
  m.def(
      "cross_entropy",
      [](const Tensor& x, const Tensor& target, const std::string& reduction,
         double label_smoothing, int64_t ignore_index) {
        return cross_entropy(x, target,
                             {.reduce = parse_reduce(reduction),
                              .smoothing = label_smoothing,
                              .ignore_index = ignore_index});
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "label_smoothing"_a = 0.0,
      "ignore_index"_a = -100, ReleaseGil(),
      "Softmax and negative log likelihood of logits [..., classes] with f32 statistics.");
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
      "cross_entropy(linear(x, weight), target) in chunks of rows: the logits are never whole.");
  m.def(
      "nll_loss",
      [](const Tensor& x, const Tensor& target, const std::string& reduction,
         int64_t ignore_index) {
        return nll_loss(x, target, parse_reduce(reduction), ignore_index);
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "ignore_index"_a = -100,
      ReleaseGil());
}

}  // namespace

void bind_losses(nb::module_& m) {
  bind_cross_entropy(m);
  for (const LossEntry& entry : loss_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& target, const std::string& reduction) {
          return run(x, target, parse_reduce(reduction));
        },
        "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", ReleaseGil(), entry.doc);
  }
  for (const ShapedLossEntry& entry : shaped_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& target, const std::string& reduction, double value) {
          return run(x, target, parse_reduce(reduction), value);
        },
        "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean",
        nb::arg(entry.parameter) = 1.0, ReleaseGil(), entry.doc);
  }
  for (const MarginEntry& entry : margin_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, const Tensor& target, double margin, const std::string& reduction) {
          return run(x, target, margin, parse_reduce(reduction));
        },
        "input"_a, "target"_a, nb::kw_only(), "margin"_a = 1.0, "reduction"_a = "mean",
        ReleaseGil(), entry.doc);
  }
  m.def(
      "bce_with_logits",
      [](const Tensor& x, const Tensor& target, const std::string& reduction,
         const std::optional<Tensor>& pos_weight) {
        return bce_with_logits(x, target, parse_reduce(reduction), or_undefined(pos_weight));
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "pos_weight"_a = nb::none(),
      ReleaseGil(), "Sigmoid and binary cross entropy in one, stable for any logit.");
  m.def(
      "kl_div",
      [](const Tensor& x, const Tensor& target, const std::string& reduction, bool log_target) {
        return kl_div(x, target, parse_reduce(reduction), log_target);
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "log_target"_a = false,
      ReleaseGil());
  m.def(
      "margin_ranking_loss",
      [](const Tensor& a, const Tensor& b, const Tensor& target, double margin,
         const std::string& reduction) {
        return margin_ranking_loss(a, b, target, margin, parse_reduce(reduction));
      },
      "input1"_a, "input2"_a, "target"_a, nb::kw_only(), "margin"_a = 0.0, "reduction"_a = "mean",
      ReleaseGil());
  m.def(
      "triplet_margin_loss",
      [](const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
         const std::string& reduction) {
        return triplet_margin_loss(anchor, positive, negative, margin, parse_reduce(reduction));
      },
      "anchor"_a, "positive"_a, "negative"_a, nb::kw_only(), "margin"_a = 1.0,
      "reduction"_a = "mean", ReleaseGil());
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
      "reduction"_a = "mean", "zero_infinity"_a = false, ReleaseGil(),
      "Connectionist temporal classification; log_probs [time, batch, classes].");
}

}  // namespace binade::python
