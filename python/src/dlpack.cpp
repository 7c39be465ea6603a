#include "dlpack.h"

#include <memory>

#include "binade/backend/gpu.h"
#include "bindings.h"

namespace binade::python {
namespace {

constexpr const char* versioned_name = "dltensor_versioned";
constexpr const char* unversioned_name = "dltensor";

dlpack::DataType data_type(DType dtype) {
  const auto of = [&](dlpack::TypeCode code) {
    return dlpack::DataType{code, static_cast<uint8_t>(8 * size_of(dtype)), 1};
  };
  switch (dtype) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
      return of(dlpack::ieee_float);
    case DType::bf16:
      return of(dlpack::bfloat);
    case DType::e4m3:
      return of(dlpack::float8_e4m3fn);
    case DType::e5m2:
      return of(dlpack::float8_e5m2);
    case DType::i64:
    case DType::i32:
      return of(dlpack::signed_integer);
    case DType::u8:
      return of(dlpack::unsigned_integer);
    case DType::boolean:
      return of(dlpack::boolean);
  }
  fail("__dlpack__", {.argument = "dtype", .found = std::string(name(dtype))});
}

DType dtype_of_data(dlpack::DataType type) {
  for (const DType dtype : all_dtypes) {
    const dlpack::DataType ours = data_type(dtype);
    if (ours.code == type.code && ours.bits == type.bits && type.lanes == 1) return dtype;
  }
  fail("from_dlpack", {.argument = "dtype",
                       .expected = "a dtype that Binade has",
                       .found = "DLPack type code " + std::to_string(type.code) + " with " +
                                std::to_string(type.bits) + " bits"});
}

dlpack::Device device_to_dlpack(Device device) {
  if (device.is_meta())
    fail("__dlpack__", {.argument = "self", .expected = "a tensor with data", .found = "meta"});
  return {device.is_cpu() ? dlpack::cpu : dlpack::cuda, device.index};
}

Device device_from_dlpack(dlpack::Device device) {
  if (device.type == dlpack::cpu) return Device::cpu();
  if (device.type == dlpack::cuda) return Device::cuda(device.id);
  fail("from_dlpack", {.argument = "device",
                       .expected = "the CPU (1) or CUDA (2)",
                       .found = "DLPack device type " + std::to_string(device.type)});
}

// An exported tensor: the handle keeps the memory alive, the shapes are what DLPack points to.
template <class Managed>
struct Export {
  Tensor tensor;
  Shape shape;
  Strides strides;
  Managed managed = {};
};

template <class Managed>
Managed* export_as(const Tensor& x) {
  auto out = std::make_unique<Export<Managed>>();
  out->tensor = x;
  out->shape = x.shape();
  out->strides = x.strides();
  out->managed.tensor = {.data = x.raw_data(),
                         .device = device_to_dlpack(x.device()),
                         .ndim = x.rank(),
                         .dtype = data_type(x.dtype()),
                         .shape = out->shape.begin(),
                         .strides = out->strides.begin(),
                         .byte_offset = 0};
  out->managed.context = out.get();
  out->managed.deleter = [](Managed* self) { delete static_cast<Export<Managed>*>(self->context); };
  return &out.release()->managed;
}

// Deletes a tensor that no consumer took: a consumer renames its capsule.
template <class Managed>
void delete_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

nb::object export_capsule(const Tensor& x, bool versioned) {
  if (x.requires_grad()) {
    fail("__dlpack__", {.argument = "self",
                        .expected = "a tensor without a gradient",
                        .found = "one that requires it",
                        .hint = "export x.detach()"});
  }
  if (x.device().is_cuda()) {
    // The consumer may read on any stream.
    const nb::gil_scoped_release no_gil;
    backend::synchronize(x.device());
  }
  PyObject* capsule = nullptr;
  if (versioned) {
    auto* managed = export_as<dlpack::VersionedTensor>(x);
    managed->version = {1, 1};
    capsule = PyCapsule_New(managed, versioned_name, [](PyObject* self) {
      delete_unused<dlpack::VersionedTensor>(self, versioned_name);
    });
  } else {
    capsule = PyCapsule_New(
        export_as<dlpack::ManagedTensor>(x), unversioned_name,
        [](PyObject* self) { delete_unused<dlpack::ManagedTensor>(self, unversioned_name); });
  }
  return nb::steal(capsule);
}

template <class Managed>
Tensor adopt(Managed* managed) {
  const dlpack::Tensor& source = managed->tensor;
  if (source.ndim > max_rank) {
    fail("from_dlpack", {.argument = "tensor",
                         .expected = "at most " + std::to_string(max_rank) + " axes",
                         .found = std::to_string(source.ndim)});
  }
  const auto axes = static_cast<size_t>(source.ndim);
  const Shape shape(std::span<const int64_t>(source.shape, axes));
  const Strides strides = source.strides == nullptr
                              ? dense_strides(shape)
                              : Strides(std::span<const int64_t>(source.strides, axes));
  const DType dtype = dtype_of_data(source.dtype);
  int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (strides[axis] < 0) {
      fail("from_dlpack", {.argument = "strides",
                           .expected = "no negative ones",
                           .found = to_string(strides),
                           .hint = "copy the array first"});
    }
    last += (shape[axis] - 1) * strides[axis];
  }
  const size_t bytes = shape.numel() == 0 ? 0 : static_cast<size_t>(last + 1) * size_of(dtype);
  const auto release = [managed] {
    if (managed->deleter == nullptr || !Py_IsInitialized()) return;
    const nb::gil_scoped_acquire gil;  // the producer may be written in Python
    managed->deleter(managed);
  };
  auto storage =
      std::make_shared<Storage>(static_cast<std::byte*>(source.data) + source.byte_offset, bytes,
                                device_from_dlpack(source.device), release);
  return Tensor::of_storage(std::move(storage), shape, strides, dtype);
}

Tensor import_capsule(nb::handle capsule) {
  PyObject* object = capsule.ptr();
  if (PyCapsule_IsValid(object, versioned_name) != 0) {
    auto* managed =
        static_cast<dlpack::VersionedTensor*>(PyCapsule_GetPointer(object, versioned_name));
    if (managed->version.major != 1) {
      fail("from_dlpack", {.argument = "capsule",
                           .expected = "DLPack 1.x",
                           .found = "version " + std::to_string(managed->version.major)});
    }
    if ((managed->flags & dlpack::read_only) != 0) {
      fail("from_dlpack", {.argument = "tensor",
                           .expected = "writable memory",
                           .found = "memory marked read-only",
                           .hint = "copy it: binade.tensor(x)"});
    }
    const Tensor tensor = adopt(managed);
    PyCapsule_SetName(object, "used_dltensor_versioned");
    return tensor;
  }
  if (PyCapsule_IsValid(object, unversioned_name) != 0) {
    const Tensor tensor =
        adopt(static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(object, unversioned_name)));
    PyCapsule_SetName(object, "used_dltensor");
    return tensor;
  }
  fail("from_dlpack", {.argument = "capsule",
                       .expected = "a DLPack capsule that was not used yet",
                       .found = nb::cast<std::string>(nb::str(capsule))});
}

}  // namespace

void bind_dlpack(nb::module_& m, TensorClass& tensor) {
  tensor.def("_dlpack", &export_capsule, "versioned"_a)
      .def("__dlpack_device__", [](const Tensor& self) {
        const dlpack::Device device = device_to_dlpack(self.device());
        return std::pair(device.type, device.id);
      });
  m.def("_from_dlpack", &import_capsule, "capsule"_a);
}

}  // namespace binade::python
