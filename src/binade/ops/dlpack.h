#pragma once

#include <functional>

#include "binade/tensor/tensor.h"

// DLPack's own structs; <dlpack/dlpack.h> of any library defines them.
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace binade {

// Tensors handed to and taken from other libraries (LibTorch, ONNX Runtime, NumPy, CUDA programs)
// without copies.

// The tensor's memory for another library, which calls the struct's deleter once it no longer needs
// it. The memory lives until then. Work that was submitted to a GPU is finished first, so the
// receiver may use any stream. Fails for an undefined tensor, for one that requires a gradient
// (detach() it first) and on the meta device.
DLManagedTensorVersioned* to_dlpack(const Tensor& tensor);
// to_dlpack() for libraries from before DLPack 1.0.
DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

// A tensor over another library's memory. It takes the struct over: the deleter is called once the
// last view is gone, or before this call throws. Waits for all work on a GPU, so that what writes
// the memory has finished. Fails for types and devices that Binade does not have, and for read-only
// memory, which no tensor can stand for.
Tensor from_dlpack(DLManagedTensorVersioned* managed);
Tensor from_dlpack(DLManagedTensor* managed);

// A tensor over memory of the program itself, elements in row-major order. `release` is called once
// the last view is gone and a GPU has finished with it; without it the memory must outlive all
// views. The tensor does not see that the program writes to the memory: call bump_version() after
// that if the tensor was used before.
Tensor from_blob(void* data, const Shape& shape, DType dtype = DType::f32,
                 Device device = Device::cpu(), std::function<void()> release = {});

}  // namespace binade
