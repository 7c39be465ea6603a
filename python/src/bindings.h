#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binade/autograd/signature.h"
#include "binade/tensor/tensor.h"

// Shared by the files of the extension module: conversions of arguments, and one function per topic
// that adds its names to the module.
namespace binade::python {

namespace nb = nanobind;
using namespace nb::literals;

using TensorClass = nb::class_<Tensor>;

// Kernels run without the GIL.
using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

// Defines binade.name(x, ...) and x.name(...).
template <class F, class... Extra>
void def_op(nb::module_& m, TensorClass& tensor, const char* name, F&& f, const Extra&... extra) {
  m.def(name, f, "input"_a, extra..., ReleaseGil());
  tensor.def(name, f, extra..., ReleaseGil());
}

// What tensor/ops.def says of an op that is bound by hand.
inline std::string summary(const char* op) { return python_summary(*find_signature(op)); }

// The names that PyTorch and NumPy give an axis. Functions are defined under both, so that either
// keyword works.
struct AxisNames {
  const char *axis, *keep;
};

inline constexpr AxisNames axis_names[] = {{"dim", "keepdim"}, {"axis", "keepdims"}};

// What max, min, sort and topk return along an axis: unpacked like a pair, or read by name.
struct ValuesAndIndices {
  Tensor values, indices;
};

// dtype and device as Python sees them.
struct DTypeObject {
  DType value;
};
struct DeviceObject {
  Device value;
};

// The dtype that a Python object names: a binade.dtype, a name such as "bf16", or a dtype of NumPy,
// ml_dtypes or PyTorch. None for anything else.
std::optional<DType> dtype_from(nb::handle object);
// The one object of each dtype, so that `is` compares them. A new reference.
nb::object dtype_object(DType dtype);

std::optional<Device> device_from(nb::handle object);

// Sizes of the axes as the options of convolutions and pools take them.
inline std::vector<int64_t> per_axis(const Shape& shape) { return {shape.begin(), shape.end()}; }

// None for an absent tensor.
inline std::optional<Tensor> optional_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

using MaybeTensor = std::optional<Tensor>;

inline Tensor or_undefined(const MaybeTensor& tensor) { return tensor.value_or(Tensor()); }

// A Python object that C++ may drop on a thread without the GIL.
class SharedObject {
 public:
  explicit SharedObject(nb::handle object);
  nb::handle get() const { return *object_; }

 private:
  std::shared_ptr<nb::handle> object_;
};

void bind_errors(nb::module_& m);
void bind_dtype(nb::module_& m);
TensorClass bind_tensor(nb::module_& m);
void bind_dlpack(nb::module_& m, TensorClass& tensor);
void bind_plain_ops(nb::module_& m, TensorClass& tensor);
void bind_ops(nb::module_& m, TensorClass& tensor);
void bind_reductions(nb::module_& m, TensorClass& tensor);
void bind_rearrange(nb::module_& m, TensorClass& tensor);
void bind_create(nb::module_& m);
void bind_layer_ops(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_losses(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_amp(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_init(nb::module_& m);
void bind_sequence_layers(nb::module_& m);
void bind_optim(nb::module_& m);
void bind_schedules(nb::module_& m);
void bind_formats(nb::module_& m);
void bind_quantize(nb::module_& m);
void bind_train(nb::module_& m);
void bind_data(nb::module_& m);
void bind_lab(nb::module_& m);
void bind_io(nb::module_& m);

}  // namespace binade::python

namespace nanobind::detail {

template <>
struct type_caster<binade::DType> {
  NB_TYPE_CASTER(binade::DType, io_name("dtype | str", "dtype"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    const auto found = binade::python::dtype_from(source);
    if (found) value = *found;
    return found.has_value();
  }
  static handle from_cpp(binade::DType dtype, rv_policy, cleanup_list*) noexcept {
    return binade::python::dtype_object(dtype).release();
  }
};

template <>
struct type_caster<binade::Device> {
  NB_TYPE_CASTER(binade::Device, io_name("device | str", "device"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    const auto found = binade::python::device_from(source);
    if (found) value = *found;
    return found.has_value();
  }
  static handle from_cpp(binade::Device device, rv_policy, cleanup_list*) noexcept {
    return nanobind::cast(binade::python::DeviceObject{device}).release();
  }
};

// Shapes and strides: a tuple or list of numbers, or one number.
template <>
struct type_caster<binade::Shape> {
  NB_TYPE_CASTER(binade::Shape, io_name("int | Sequence[int]", "tuple[int, ...]"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<int64_t> one;
    if (one.from_python(source, flags, cleanup)) {
      value = binade::Shape{one.operator cast_t<int64_t>()};
      return true;
    }
    make_caster<std::vector<int64_t>> many;
    if (!many.from_python(source, flags, cleanup)) return false;
    if (many.value.size() > binade::max_rank) return false;
    value = binade::Shape(std::span<const int64_t>(many.value));
    return true;
  }
  static handle from_cpp(const binade::Shape& shape, rv_policy, cleanup_list*) noexcept {
    PyObject* tuple = PyTuple_New(shape.rank());
    if (tuple == nullptr) return {};
    for (int axis = 0; axis < shape.rank(); ++axis)
      PyTuple_SetItem(tuple, axis, PyLong_FromLongLong(shape[axis]));
    return tuple;
  }
};

}  // namespace nanobind::detail
