#include "binade/ops/composed.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/index/index.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "bindings.h"

// Ops along axes. Each is defined under PyTorch's names of its arguments and under NumPy's.
namespace binade::python {
namespace {

// One number or several; None: all axes.
using MaybeAxes = std::optional<Shape>;

Axes axes_of(const MaybeAxes& dim) {
  Axes axes;
  if (dim) axes.insert(axes.end(), dim->begin(), dim->end());
  return axes;
}

struct IndexEntry {
  const char* name;
  Tensor (*run)(const Tensor&, int64_t, bool);
  const char* doc;
};

constexpr IndexEntry index_table[] = {
    {"argmax", argmax, "The index of the first largest element along `dim`, or of all elements."},
    {"argmin", argmin, "The index of the first smallest element along `dim`, or of all elements."},
};

struct ExtremeEntry {
  const char* name;
  Tensor (*of_all)(const Tensor&, const Axes&, bool);
  Tensor (*of_two)(const Tensor&, const Tensor&);
  Tensor (*index)(const Tensor&, int64_t, bool);
  const char* doc;
};

constexpr ExtremeEntry extreme_table[] = {
    {"max", max, maximum, argmax,
     "The largest element; with `dim`, (values, indices) along it; with `other`, maximum()."},
    {"min", min, minimum, argmin,
     "The smallest element; with `dim`, (values, indices) along it; with `other`, minimum()."},
};

template <class Result>
struct SpreadEntry {
  const char* name;
  Result (*run)(const Tensor&, const Axes&, bool, double);
  const char* doc;
};

constexpr SpreadEntry<Tensor> spread_table[] = {
    {"var", var, "The variance over `dim`, divided by count - correction."},
    {"std", binade::std, "The standard deviation over `dim`: the square root of var()."},
};

constexpr SpreadEntry<std::pair<Tensor, Tensor>> pair_table[] = {
    {"var_mean", var_mean, "(var(), mean()) over `dim`."},
    {"std_mean", std_mean, "(std(), mean()) over `dim`."},
};

Tensor flat_index(const IndexEntry& entry, const Tensor& x, std::optional<int64_t> dim, bool keep) {
  if (dim) return entry.run(x, *dim, keep);
  const Tensor index = entry.run(reshape(x, {-1}), 0, false);
  return keep ? reshape(index, Shape(std::vector<int64_t>(x.rank(), 1))) : index;
}

// The gradient goes to the element that the index names, as PyTorch's does.
ValuesAndIndices extreme_along(const ExtremeEntry& entry, const Tensor& x, int64_t dim, bool keep) {
  const Tensor kept = entry.index(x, dim, true);
  const Tensor values = gather(x, dim, kept);
  return keep ? ValuesAndIndices{values, kept}
              : ValuesAndIndices{squeeze(values, dim), squeeze(kept, dim)};
}

void bind_extremes(nb::module_& m, TensorClass& tensor, const AxisNames& names) {
  const auto keep = nb::arg(names.keep) = false;
  for (const IndexEntry& entry : index_table) {
    def_op(
        m, tensor, entry.name,
        [&entry](const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
          return flat_index(entry, x, dim, keepdim);
        },
        nb::arg(names.axis) = nb::none(), keep, entry.doc);
  }
  for (const ExtremeEntry& entry : extreme_table) {
    def_op(
        m, tensor, entry.name,
        [&entry](const Tensor& x, int64_t dim, bool keepdim) {
          return extreme_along(entry, x, dim, keepdim);
        },
        nb::arg(names.axis), keep);
  }
}

// `unbiased` is the older name of a correction by 1 or 0.
void bind_spreads(nb::module_& m, TensorClass& tensor, const AxisNames& names) {
  const auto keep = nb::arg(names.keep) = false;
  const auto define = [&](const auto& entry) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, const MaybeAxes& dim, double correction, bool keepdim) {
          return run(x, axes_of(dim), keepdim, correction);
        },
        nb::arg(names.axis) = nb::none(), "correction"_a = 1.0, keep, entry.doc);
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, const MaybeAxes& dim, bool unbiased, bool keepdim) {
          return run(x, axes_of(dim), keepdim, unbiased ? 1 : 0);
        },
        nb::arg(names.axis) = nb::none(), nb::kw_only(), "unbiased"_a, keep);
  };
  for (const auto& entry : spread_table) define(entry);
  for (const auto& entry : pair_table) define(entry);
}

void bind_values_and_indices(nb::module_& m) {
  nb::class_<ValuesAndIndices>(m, "ValuesAndIndices",
                               "What max, min, sort and topk return along an axis.")
      .def_ro("values", &ValuesAndIndices::values)
      .def_ro("indices", &ValuesAndIndices::indices)
      .def("__len__", [](const ValuesAndIndices&) { return 2; })
      .def("__getitem__",
           [](const ValuesAndIndices& self, int64_t i) {
             if (i < -2 || i > 1) throw nb::index_error("a pair has the indices 0 and 1");
             return i == 0 || i == -2 ? self.values : self.indices;
           })
      .def("__repr__", [](const ValuesAndIndices& self) {
        return nb::str("(values={!r}, indices={!r})").format(self.values, self.indices);
      });
}

}  // namespace

void bind_reductions(nb::module_& m, TensorClass& tensor) {
  bind_values_and_indices(m);
  const auto define_flag = [&](const auto& entry) {
    const auto run = entry.run;
    def_op(
        m, tensor, entry.name,
        [run](const Tensor& x, bool unbiased) { return run(x, {}, false, unbiased ? 1 : 0); },
        "unbiased"_a);
  };
  for (const auto& entry : spread_table) define_flag(entry);
  for (const auto& entry : pair_table) define_flag(entry);
  for (const ExtremeEntry& entry : extreme_table) {
    def_op(
        m, tensor, entry.name, [&entry](const Tensor& x) { return entry.of_all(x, {}, false); },
        entry.doc);
    def_op(m, tensor, entry.name, entry.of_two, "other"_a);
  }
  for (const AxisNames& names : axis_names) {
    bind_extremes(m, tensor, names);
    bind_spreads(m, tensor, names);
  }
}

}  // namespace binade::python
