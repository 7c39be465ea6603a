#include <cstring>

#include "binade/base/random.h"
#include "binade/c/handles.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/dlpack.h"
#include "binade/ops/shape/shape.h"

namespace binade::c {
namespace {

Shape shape_of(const bnd_layout& layout, const char* function) {
  if (layout.rank < 0 || layout.rank > max_rank)
    fail(function, {.argument = "rank",
                    .expected = "0 to " + std::to_string(max_rank),
                    .found = std::to_string(layout.rank)});
  if (layout.rank > 0) checked(layout.shape, function, "shape");
  return Shape(std::span<const int64_t>(layout.shape, static_cast<size_t>(layout.rank)));
}

Tensor empty_of(const bnd_layout* layout, const char* function) {
  const bnd_layout& given = checked(layout, function, "layout");
  return Tensor::empty(shape_of(given, function), type_of(given.dtype), device_of(given.device));
}

void require_bytes(const Tensor& tensor, size_t bytes, const char* function) {
  if (static_cast<size_t>(tensor.bytes()) != bytes)
    fail(function, {.argument = "bytes",
                    .expected = std::to_string(tensor.bytes()) + " for " + describe(tensor),
                    .found = std::to_string(bytes)});
}

void overwrite(const Tensor& tensor, const void* data, size_t bytes, const char* function) {
  require_bytes(tensor, bytes, function);
  if (bytes == 0) return;
  checked(static_cast<const std::byte*>(data), function, "data");
  Tensor host = Tensor::empty(tensor.shape(), tensor.dtype());
  std::memcpy(host.raw_data(), data, bytes);
  copy_(tensor, host);
}

}  // namespace
}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_tensor_empty(const bnd_layout* layout, bnd_tensor** result) {
  return giving("bnd_tensor_empty", result, [&] { return empty_of(layout, "bnd_tensor_empty"); });
}

bnd_status bnd_tensor_full(const bnd_layout* layout, double value, bnd_tensor** result) {
  return giving("bnd_tensor_full", result, [&] {
    Tensor tensor = empty_of(layout, "bnd_tensor_full");
    fill_(tensor, value);
    return tensor;
  });
}

bnd_status bnd_tensor_randn(const bnd_layout* layout, uint64_t seed, bnd_tensor** result) {
  return giving("bnd_tensor_randn", result, [&] {
    const bnd_layout& given = checked(layout, "bnd_tensor_randn", "layout");
    return randn(shape_of(given, "bnd_tensor_randn"), random::Key{seed, 0}, type_of(given.dtype),
                 device_of(given.device));
  });
}

bnd_status bnd_tensor_rand(const bnd_layout* layout, uint64_t seed, bnd_tensor** result) {
  return giving("bnd_tensor_rand", result, [&] {
    const bnd_layout& given = checked(layout, "bnd_tensor_rand", "layout");
    return rand(shape_of(given, "bnd_tensor_rand"), random::Key{seed, 0}, type_of(given.dtype),
                device_of(given.device));
  });
}

bnd_status bnd_tensor_from_data(const bnd_layout* layout, const void* data, size_t bytes,
                                bnd_tensor** result) {
  return giving("bnd_tensor_from_data", result, [&] {
    Tensor tensor = empty_of(layout, "bnd_tensor_from_data");
    overwrite(tensor, data, bytes, "bnd_tensor_from_data");
    return tensor;
  });
}

bnd_status bnd_tensor_share(const bnd_tensor* tensor, bnd_tensor** result) {
  return giving("bnd_tensor_share", result, [&] { return tensor_of(tensor, "bnd_tensor_share"); });
}

void bnd_tensor_free(bnd_tensor* tensor) { delete tensor; }

int bnd_tensor_rank(const bnd_tensor* tensor) { return tensor ? tensor->value.rank() : 0; }

int64_t bnd_tensor_size(const bnd_tensor* tensor, int axis) {
  if (tensor == nullptr || axis < 0 || axis >= tensor->value.rank()) return -1;
  return tensor->value.shape()[axis];
}

int64_t bnd_tensor_numel(const bnd_tensor* tensor) { return tensor ? tensor->value.numel() : 0; }

bnd_dtype bnd_tensor_dtype(const bnd_tensor* tensor) {
  return tensor ? code_of(tensor->value.dtype()) : BND_F32;
}

bnd_device bnd_tensor_device(const bnd_tensor* tensor) {
  return code_of(tensor ? tensor->value.device() : Device::cpu());
}

bnd_status bnd_tensor_read(const bnd_tensor* tensor, void* data, size_t bytes) {
  return guarded([&] {
    const Tensor& value = tensor_of(tensor, "bnd_tensor_read");
    require_bytes(value, bytes, "bnd_tensor_read");
    if (bytes == 0) return;
    checked(static_cast<std::byte*>(data), "bnd_tensor_read", "data");
    const Tensor host = contiguous(to(value.detach(), Device::cpu()));
    std::memcpy(data, host.raw_data(), bytes);
  });
}

bnd_status bnd_tensor_write(const bnd_tensor* tensor, const void* data, size_t bytes) {
  return guarded(
      [&] { overwrite(tensor_of(tensor, "bnd_tensor_write"), data, bytes, "bnd_tensor_write"); });
}

bnd_status bnd_tensor_item(const bnd_tensor* tensor, double* value) {
  return guarded([&] {
    checked(value, "bnd_tensor_item", "value") = tensor_of(tensor, "bnd_tensor_item").item();
  });
}

bnd_status bnd_tensor_to_device(const bnd_tensor* tensor, bnd_device device, bnd_tensor** result) {
  return giving("bnd_tensor_to_device", result,
                [&] { return to(tensor_of(tensor, "bnd_tensor_to_device"), device_of(device)); });
}

bnd_status bnd_tensor_to_dlpack(const bnd_tensor* tensor, DLManagedTensorVersioned** result) {
  return guarded([&] {
    checked(result, "bnd_tensor_to_dlpack", "result") =
        to_dlpack(tensor_of(tensor, "bnd_tensor_to_dlpack"));
  });
}

bnd_status bnd_tensor_from_dlpack(DLManagedTensorVersioned* managed, bnd_tensor** result) {
  return giving("bnd_tensor_from_dlpack", result, [&] { return from_dlpack(managed); });
}

bnd_status bnd_tensor_set_requires_grad(bnd_tensor* tensor, int requires_grad) {
  return guarded([&] {
    checked(tensor, "bnd_tensor_set_requires_grad", "tensor")
        .value.set_requires_grad(requires_grad != 0);
  });
}

int bnd_tensor_requires_grad(const bnd_tensor* tensor) {
  return tensor && tensor->value.requires_grad() ? 1 : 0;
}

bnd_status bnd_tensor_grad(const bnd_tensor* tensor, bnd_tensor** result) {
  return guarded([&] {
    checked(result, "bnd_tensor_grad", "result");
    const Tensor grad = tensor_of(tensor, "bnd_tensor_grad").grad();
    *result = grad.defined() ? new bnd_tensor{grad} : nullptr;
  });
}

bnd_status bnd_tensor_zero_grad(const bnd_tensor* tensor) {
  return guarded([&] { tensor_of(tensor, "bnd_tensor_zero_grad").zero_grad(); });
}

bnd_status bnd_tensor_detach(const bnd_tensor* tensor, bnd_tensor** result) {
  return giving("bnd_tensor_detach", result,
                [&] { return tensor_of(tensor, "bnd_tensor_detach").detach(); });
}

bnd_status bnd_tensor_backward(const bnd_tensor* tensor, const bnd_tensor* seed) {
  return guarded(
      [&] { tensor_of(tensor, "bnd_tensor_backward").backward(seed ? seed->value : Tensor()); });
}
}
