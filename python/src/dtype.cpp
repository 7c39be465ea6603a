#include "binade/tensor/dtype.h"

#include <array>

#include "bindings.h"

namespace binade::python {
namespace {

// Owned by the module for the life of the interpreter.
std::array<PyObject*, std::size(all_dtypes)> dtype_objects = {};

// The names of other libraries that parse_dtype does not know.
std::optional<DType> foreign_dtype(std::string_view name) {
  if (name == "float8_e4m3fn") return DType::e4m3;
  if (name == "float8_e5m2") return DType::e5m2;
  if (name == "bool") return DType::boolean;
  if (name == "float64") return DType::f64;
  if (name == "float32") return DType::f32;
  if (name == "float16") return DType::f16;
  if (name == "bfloat16") return DType::bf16;
  if (name == "int64") return DType::i64;
  if (name == "int32") return DType::i32;
  if (name == "uint8") return DType::u8;
  return std::nullopt;
}

std::optional<DType> parse(const std::string& text) {
  if (const auto found = foreign_dtype(text)) return found;
  try {
    return parse_dtype(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The name of a dtype object of another library: numpy.dtype has one, numpy.float32 is a class, and
// PyTorch's prints as "torch.bfloat16".
std::string name_of(nb::handle object) {
  for (const char* attribute : {"name", "__name__"}) {
    if (nb::hasattr(object, attribute))
      return nb::cast<std::string>(nb::str(object.attr(attribute)));
  }
  const std::string text = nb::cast<std::string>(nb::str(object));
  return text.starts_with("torch.") ? text.substr(6) : "";
}

std::string dtype_name(const DTypeObject& dtype) { return std::string(name(dtype.value)); }

nb::object equal_to(nb::handle other, bool equal) {
  return other.is_none() ? nb::borrow(Py_False) : nb::borrow(equal ? Py_True : Py_False);
}

void bind_device(nb::module_& m) {
  nb::class_<DeviceObject>(m, "device", "Where a tensor's memory is: cpu, cuda:0, meta.")
      .def(
          "__init__",
          [](DeviceObject* self, const std::string& text) {
            new (self) DeviceObject{parse_device(text)};
          },
          "name"_a)
      .def_prop_ro("type",
                   [](const DeviceObject& self) {
                     const std::string text = to_string(self.value);
                     return text.substr(0, text.find(':'));
                   })
      .def_prop_ro("index", [](const DeviceObject& self) { return self.value.index; })
      .def("__repr__",
           [](const DeviceObject& self) { return "device('" + to_string(self.value) + "')"; })
      .def("__str__", [](const DeviceObject& self) { return to_string(self.value); })
      .def(
          "__hash__",
          [](const DeviceObject& self) { return nb::hash(nb::str(to_string(self.value).c_str())); })
      .def(
          "__eq__",
          [](const DeviceObject& self, nb::handle other) {
            const auto device = device_from(other);
            return equal_to(other, device && *device == self.value);
          },
          "other"_a.none());
}

// TypeError, which names the dtypes, for an object that names none.
DType named(nb::handle object) {
  if (const auto dtype = dtype_from(object)) return *dtype;
  std::string known;
  for (const DType dtype : all_dtypes)
    known += (known.empty() ? "" : ", ") + std::string(name(dtype));
  throw nb::type_error(("expected a dtype: " + known +
                        ", or PyTorch's or NumPy's name of one; found " +
                        nb::cast<std::string>(nb::repr(object)))
                           .c_str());
}

}  // namespace

std::optional<DType> dtype_from(nb::handle object) {
  try {
    DTypeObject* known = nullptr;
    if (nb::try_cast(object, known) && known != nullptr) return known->value;
    if (nb::isinstance<nb::str>(object)) return parse(nb::cast<std::string>(object));
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f32;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
    if (object.is_none() || nb::isinstance<Tensor>(object)) return std::nullopt;
    return parse(name_of(object));
  } catch (...) {
    return std::nullopt;  // an object without a usable name
  }
}

nb::object dtype_object(DType dtype) {
  return nb::borrow(dtype_objects[static_cast<size_t>(dtype)]);
}

std::optional<Device> device_from(nb::handle object) {
  try {
    DeviceObject* known = nullptr;
    if (nb::try_cast(object, known) && known != nullptr) return known->value;
    if (nb::isinstance<nb::str>(object)) return parse_device(nb::cast<std::string>(object));
  } catch (...) {
    return std::nullopt;  // not the name of a device
  }
  return std::nullopt;
}

void bind_dtype(nb::module_& m) {
  nb::class_<DTypeObject>(m, "dtype", "The element type of a tensor.")
      .def(
          "__init__",
          [](DTypeObject* self, nb::handle name) { new (self) DTypeObject{named(name)}; }, "name"_a)
      .def_prop_ro("name", dtype_name)
      .def_prop_ro("itemsize", [](const DTypeObject& self) { return size_of(self.value); })
      .def_prop_ro("is_floating_point",
                   [](const DTypeObject& self) { return is_floating(self.value); })
      .def("__repr__", [](const DTypeObject& self) { return "binade." + dtype_name(self); })
      .def("__hash__", [](const DTypeObject& self) { return static_cast<int>(self.value); })
      .def(
          "__eq__",
          [](const DTypeObject& self, nb::handle other) {
            const auto dtype = dtype_from(other);
            return equal_to(other, dtype && *dtype == self.value);
          },
          "other"_a.none());
  for (const DType dtype : all_dtypes) {
    nb::object object = nb::cast(DTypeObject{dtype});
    dtype_objects[static_cast<size_t>(dtype)] = object.ptr();
    // The package adds binade.bool; here the name would hide Python's in the type stubs.
    m.attr(dtype == DType::boolean ? "_boolean" : std::string(name(dtype)).c_str()) = object;
  }
  bind_device(m);
}

}  // namespace binade::python
