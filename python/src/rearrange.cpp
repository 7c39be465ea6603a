#include <nanobind/stl/tuple.h>

#include "binade/ops/composed.h"
#include "binade/ops/create/categorical.h"
#include "binade/ops/index/count.h"
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

// Joins of a list of tensors.
struct JoinEntry {
  const char* name;
  Tensor (*run)(std::span<const Tensor>);
};

constexpr JoinEntry join_table[] = {{"hstack", hstack}, {"vstack", vstack}};

struct UniqueEntry {
  const char* name;
  Unique (*run)(const Tensor&, UniqueOptions);
};

constexpr UniqueEntry unique_table[] = {
    {"_unique", unique},
    {"_unique_consecutive", unique_consecutive},
};

// python/binade/_functions.py and _counting.py give them PyTorch's arguments.
void bind_for_python(nb::module_& m) {
  m.def(
      "_meshgrid",
      [](const std::vector<Tensor>& lines, const std::string& indexing) {
        return meshgrid(lines, indexing);
      },
      ReleaseGil());
  m.def("_searchsorted", &searchsorted, ReleaseGil());
  for (const UniqueEntry& entry : unique_table) {
    const auto run = entry.run;
    m.def(
        entry.name,
        [run](const Tensor& x, bool inverse, bool counts) {
          const Unique found = run(x, {.inverse = inverse, .counts = counts});
          return std::tuple(found.values, optional_of(found.inverse), optional_of(found.counts));
        },
        ReleaseGil());
  }
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
  for (const JoinEntry& entry : join_table) {
    const auto run = entry.run;
    m.def(
        entry.name, [run](const std::vector<Tensor>& tensors) { return run(tensors); }, "tensors"_a,
        ReleaseGil(), summary(entry.name).c_str());
  }
  bind_for_python(m);
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
