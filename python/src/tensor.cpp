#include "binade/tensor/tensor.h"

#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "bindings.h"

namespace binade::python {
namespace {

// The bytes from the first to the last element of a view.
size_t span_bytes(const Shape& shape, const Strides& strides, DType dtype) {
  int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 0) return 0;
    last += (shape[axis] - 1) * strides[axis];
  }
  return static_cast<size_t>(last + 1) * size_of(dtype);
}

// A tensor over memory that `owner` keeps alive.
Tensor from_pointer(uintptr_t address, const Shape& shape, const Strides& strides, DType dtype,
                    Device device, nb::handle owner) {
  const SharedObject held(owner);
  auto storage = std::make_shared<Storage>(reinterpret_cast<void*>(address),
                                           span_bytes(shape, strides, dtype), device, [held] {});
  return Tensor::of_storage(std::move(storage), shape, strides, dtype);
}

nb::object item(const Tensor& x) {
  const double value = [&] {
    const nb::gil_scoped_release no_gil;
    return x.item();
  }();
  if (is_floating(x.dtype())) return nb::float_(value);
  if (x.dtype() == DType::boolean) return nb::bool_(value != 0);
  if (x.dtype() == DType::i64 && x.device().is_cpu())
    return nb::int_(*static_cast<const int64_t*>(x.raw_data()));
  return nb::int_(static_cast<int64_t>(value));
}

Tensor to_dtype_or_device(const Tensor& x, nb::handle target) {
  if (const auto dtype = dtype_from(target)) {
    const nb::gil_scoped_release no_gil;
    return x.dtype() == *dtype ? x : cast(x, *dtype);
  }
  if (const auto device = device_from(target)) {
    const nb::gil_scoped_release no_gil;
    return to(x, *device);
  }
  fail("to", {.argument = "target",
              .expected = "a dtype or a device",
              .found = nb::cast<std::string>(nb::str(target))});
}

// Runs a write and returns the same Python object, which may be a Parameter.
template <class F>
nb::object written(nb::handle self, F&& write) {
  const Tensor& x = nb::cast<const Tensor&>(self);
  {
    const nb::gil_scoped_release no_gil;
    write(x);
  }
  return nb::borrow(self);
}

void bind_autograd_members(TensorClass& tensor) {
  tensor
      .def_prop_rw(
          "requires_grad", &Tensor::requires_grad,
          [](Tensor& self, bool value) { self.set_requires_grad(value); },
          "Whether backward() accumulates a gradient for this leaf.")
      .def(
          "requires_grad_",
          [](nb::handle self, bool value) {
            nb::cast<Tensor&>(self).set_requires_grad(value);
            return nb::borrow(self);
          },
          "requires_grad"_a = true,
          nb::sig("def requires_grad_(self, requires_grad: bool = True) -> Tensor"),
          "Sets requires_grad.")
      .def_prop_ro("is_leaf", &Tensor::is_leaf)
      .def_prop_rw(
          "grad", [](const Tensor& self) { return optional_of(self.grad()); },
          [](const Tensor& self, const std::optional<Tensor>& grad) {
            if (grad) return self.set_grad(*grad);
            self.zero_grad();
          },
          nb::for_setter(nb::arg("grad").none()), "The accumulated gradient of a leaf, or None.")
      .def_prop_rw("grad_dtype", &Tensor::grad_dtype, &Tensor::set_grad_dtype,
                   "The dtype gradients accumulate in: f32 for 16-bit leaves.")
      .def(
          "backward",
          [](const Tensor& self, const std::optional<Tensor>& gradient, bool retain_graph) {
            self.backward(gradient.value_or(Tensor()),
                          retain_graph ? RetainGraph::yes : RetainGraph::no);
          },
          "gradient"_a = nb::none(), "retain_graph"_a = false, ReleaseGil(),
          "Adds the derivatives of this tensor to the gradient of every leaf.")
      .def("retain_grad", &Tensor::retain_grad,
           "Makes the result of an op keep its gradient in the next backwards.")
      .def("_set_data", &Tensor::set_data)
      .def("detach", &Tensor::detach, "The same data without its graph.");
}

}  // namespace

TensorClass bind_tensor(nb::module_& m) {
  TensorClass tensor(m, "Tensor", nb::is_weak_referenceable(), nb::dynamic_attr(),
                     "A typed, strided view of memory that takes part in autograd.");
  tensor
      .def(
          "__init__", [](Tensor* self, const Tensor& data) { new (self) Tensor(data); }, "data"_a,
          "Another reference to the same tensor; binade.tensor() makes new ones.")
      .def_prop_ro("shape", [](const Tensor& self) { return self.shape(); })
      .def(
          "stride", [](const Tensor& self) { return self.strides(); }, "Strides in elements.")
      .def("stride", &Tensor::stride, "dim"_a)
      .def("storage_offset", &Tensor::storage_offset)
      .def_prop_ro("dtype", [](const Tensor& self) { return self.dtype(); })
      .def_prop_ro("device", [](const Tensor& self) { return self.device(); })
      .def_prop_ro("ndim", &Tensor::rank)
      .def("dim", &Tensor::rank)
      .def("numel", &Tensor::numel)
      .def("element_size", [](const Tensor& self) { return size_of(self.dtype()); })
      .def_prop_ro("nbytes", &Tensor::bytes)
      .def_prop_ro("_version", &Tensor::version)
      .def("size", [](const Tensor& self) { return self.shape(); })
      .def("size", &Tensor::size, "dim"_a)
      .def("is_contiguous", &Tensor::is_dense)
      .def(
          "data_ptr",
          [](const Tensor& self) { return reinterpret_cast<uintptr_t>(self.raw_data()); },
          "The address of the first element.")
      .def("item", &item, "The value of a one-element tensor as a Python number.")
      .def("_to", &to_dtype_or_device)
      .def(
          "copy_",
          [](nb::handle self, const Tensor& source) {
            return written(self, [&](const Tensor& x) { copy_(x, source); });
          },
          "source"_a, nb::sig("def copy_(self, source: Tensor) -> Tensor"),
          "Copies values in; converts, broadcasts and crosses devices.")
      .def(
          "fill_",
          [](nb::handle self, double value) {
            return written(self, [&](const Tensor& x) { fill_(x, value); });
          },
          "value"_a, nb::sig("def fill_(self, value: float) -> Tensor"), "One value everywhere.")
      .def(
          "zero_",
          [](nb::handle self) { return written(self, [](const Tensor& x) { fill_(x, 0); }); },
          nb::sig("def zero_(self) -> Tensor"), "Zeros everywhere.")
      .def(
          "_values", [](const Tensor& self) { return to_vector(self); }, ReleaseGil());
  bind_autograd_members(tensor);
  m.def("_from_pointer", &from_pointer, "address"_a, "shape"_a, "strides"_a, "dtype"_a, "device"_a,
        "owner"_a);
  m.def("_share_memory",
        [](const Tensor& a, const Tensor& b) { return a.storage() == b.storage(); });
  m.def("_same", [](const Tensor& a, const Tensor& b) { return a.same_as(b); });
  return tensor;
}

}  // namespace binade::python
