#include "binade/ops/shape/rearrange.h"

#include "binade/ops/create/categorical.h"
#include "binade/ops/index/mask.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/shape/pad.h"
#include "binade/ops/shape/shape.h"
#include "bindings.h"

// Ops that move, repeat, order or select elements.
namespace binade::python {
namespace {

std::vector<int64_t> list_of(const Shape& numbers) { return {numbers.begin(), numbers.end()}; }

PadMode parse_pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "replicate") return PadMode::replicate;
  fail("pad", {.argument = "mode",
               .expected = "one of constant, reflect, replicate",
               .found = "'" + mode + "'"});
}

void bind_copies(nb::module_& m, TensorClass& tensor) {
  def_op(
      m, tensor, "flip", [](const Tensor& x, const Shape& dims) { return flip(x, list_of(dims)); },
      "dims"_a, "The order of elements reversed along axes.");
  def_op(
      m, tensor, "roll",
      [](const Tensor& x, const Shape& shifts, const std::optional<Shape>& dims) {
        return roll(x, list_of(shifts), dims ? list_of(*dims) : std::vector<int64_t>{});
      },
      "shifts"_a, "dims"_a = nb::none(),
      "Element i of an axis moved to i + shift; those past the end to the beginning.");
  def_op(
      m, tensor, "repeat",
      [](const Tensor& x, const Shape& repeats) { return repeat(x, list_of(repeats)); },
      "repeats"_a, "x side by side with itself, repeats[i] times along axis i.");
  def_op(m, tensor, "tril", &tril, "diagonal"_a = 0,
         "The lower triangle of matrices, zeros elsewhere.");
  def_op(m, tensor, "triu", &triu, "diagonal"_a = 0,
         "The upper triangle of matrices, zeros elsewhere.");
  m.def(
      "pad",
      [](const Tensor& x, const std::vector<int64_t>& pad_sizes, const std::string& mode,
         double value) {
        return pad(x, pad_sizes, {.mode = parse_pad_mode(mode), .value = value});
      },
      "input"_a, "pad"_a, "mode"_a = "constant", "value"_a = 0.0, ReleaseGil(),
      "Elements added before and after; pairs (before, after) from the last axis on.");
  for (const AxisNames& names : axis_names)
    def_op(m, tensor, "chunk", &chunk, "chunks"_a, nb::arg(names.axis) = 0,
           "Up to `chunks` pieces of equal size; the last may be smaller.");
}

void bind_order(nb::module_& m, TensorClass& tensor) {
  const auto order_of = [](bool descending) {
    return descending ? Order::descending : Order::ascending;
  };
  const auto pair_of = [](const Sorted& sorted) {
    return ValuesAndIndices{sorted.values, sorted.index};
  };
  for (const AxisNames& names : axis_names) {
    const auto last_axis = nb::arg(names.axis) = -1;
    def_op(
        m, tensor, "sort",
        [=](const Tensor& x, int64_t dim, bool descending) {
          return pair_of(sort(x, dim, order_of(descending)));
        },
        last_axis, "descending"_a = false,
        "(values, indices) in order along an axis; equal elements keep theirs, NaN is the "
        "largest.");
    def_op(
        m, tensor, "argsort",
        [=](const Tensor& x, int64_t dim, bool descending) {
          return argsort(x, dim, order_of(descending));
        },
        last_axis, "descending"_a = false, "The indices that sort x along an axis.");
    def_op(
        m, tensor, "topk",
        [=](const Tensor& x, int64_t k, int64_t dim, bool largest) {
          return pair_of(topk(x, k, dim, order_of(largest)));
        },
        "k"_a, last_axis, "largest"_a = true,
        "(values, indices) of the k largest elements along an axis, or of the smallest.");
  }
}

}  // namespace

void bind_rearrange(nb::module_& m, TensorClass& tensor) {
  bind_copies(m, tensor);
  bind_order(m, tensor);
  def_op(m, tensor, "masked_fill", &masked_fill, "mask"_a, "value"_a,
         "`value` where the mask holds, else x.");
  def_op(m, tensor, "masked_select", &masked_select, "mask"_a,
         "The elements at which the mask holds, as one line.");
  def_op(m, tensor, "nonzero", &nonzero,
         "The indices of elements that are not zero, [count, rank].");
  m.def(
      "one_hot",
      [](const Tensor& index, int64_t num_classes) {
        return one_hot(index, num_classes < 0 ? std::nullopt : std::optional(num_classes));
      },
      "input"_a, "num_classes"_a = -1, ReleaseGil(),
      "1 at each index, 0 elsewhere, [..., num_classes]; -1: the largest index decides.");
  def_op(
      m, tensor, "multinomial",
      [](const Tensor& weights, int64_t num_samples, bool replacement) {
        return multinomial(weights, num_samples, {.replacement = replacement});
      },
      "num_samples"_a, "replacement"_a = false,
      "Indices drawn with probabilities proportional to the weights of a row.");
}

}  // namespace binade::python
