#include "binade/ops/create/categorical.h"
#include "binade/ops/shape/pad.h"
#include "bindings.h"

// Ops that add or choose elements, with options of their own.
namespace binade::python {
namespace {

PadMode parse_pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::constant;
  if (mode == "reflect") return PadMode::reflect;
  if (mode == "replicate") return PadMode::replicate;
  fail("pad", {.argument = "mode",
               .expected = "one of constant, reflect, replicate",
               .found = "'" + mode + "'"});
}

}  // namespace

void bind_rearrange(nb::module_& m, TensorClass& tensor) {
  m.def(
      "pad",
      [](const Tensor& x, const std::vector<int64_t>& pad_sizes, const std::string& mode,
         double value) {
        return pad(x, pad_sizes, {.mode = parse_pad_mode(mode), .value = value});
      },
      "input"_a, "pad"_a, "mode"_a = "constant", "value"_a = 0.0, ReleaseGil(),
      summary("pad").c_str());
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
      "num_samples"_a, "replacement"_a = false, summary("multinomial").c_str());
}

}  // namespace binade::python
