#include "binade/ops/dlpack.h"

#include "binade/base/error.h"
#include "bindings.h"

// DLPack's Python protocol: capsules around the structs of ops/dlpack.h.
namespace binade::python {
namespace {

constexpr const char* versioned_name = "dltensor_versioned";
constexpr const char* unversioned_name = "dltensor";

// Frees a tensor that no consumer took, as a consumer would: consumers rename their capsule.
template <class Managed>
void free_unused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  from_dlpack(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

nb::object export_capsule(const Tensor& x, bool versioned) {
  PyObject* capsule = nullptr;
  if (versioned) {
    capsule = PyCapsule_New(to_dlpack(x), versioned_name, [](PyObject* self) {
      free_unused<DLManagedTensorVersioned>(self, versioned_name);
    });
  } else {
    capsule = PyCapsule_New(to_dlpack_unversioned(x), unversioned_name, [](PyObject* self) {
      free_unused<DLManagedTensor>(self, unversioned_name);
    });
  }
  return nb::steal(capsule);
}

// Marks a capsule as used and takes its tensor, even if the tensor is then refused.
template <class Managed>
Tensor take(PyObject* capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  PyCapsule_SetName(capsule, used_name);
  return from_dlpack(managed);
}

Tensor import_capsule(nb::handle capsule) {
  PyObject* object = capsule.ptr();
  if (PyCapsule_IsValid(object, versioned_name) != 0)
    return take<DLManagedTensorVersioned>(object, versioned_name, "used_dltensor_versioned");
  if (PyCapsule_IsValid(object, unversioned_name) != 0)
    return take<DLManagedTensor>(object, unversioned_name, "used_dltensor");
  fail("from_dlpack", {.argument = "capsule",
                       .expected = "a DLPack capsule that was not used yet",
                       .found = nb::cast<std::string>(nb::str(capsule))});
}

// (type, index) by DLPack's numbers: 1 is the CPU, 2 CUDA.
std::pair<int, int> device_of(const Tensor& x) {
  const Device device = x.device();
  if (device.is_meta())
    fail("__dlpack_device__",
         {.argument = "self", .expected = "a tensor with data", .found = "meta"});
  return {device.is_cpu() ? 1 : 2, device.index};
}

}  // namespace

void bind_dlpack(nb::module_& m, TensorClass& tensor) {
  tensor.def("_dlpack", &export_capsule, "versioned"_a).def("__dlpack_device__", &device_of);
  m.def("_from_dlpack", &import_capsule, "capsule"_a);
}

}  // namespace binade::python
