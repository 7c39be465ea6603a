#include "binade/ops/dlpack.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/backend/gpu.h"
#include "binade/base/error.h"

// The layout of DLPack 1.1's structs, which is the same in C for every library.
extern "C" {

struct DLPackVersion {
  uint32_t major, minor;
};
struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t rank;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null if row-major without gaps
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* manager;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
}

namespace binade {
namespace {

constexpr DLPackVersion our_version{1, 1};
constexpr uint64_t read_only_flag = 1;
constexpr int32_t cpu_type = 1, cuda_type = 2, cuda_host_type = 3;

struct TypeCode {
  DType dtype;
  uint8_t code, bits;
};

// Codes: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 e4m3fn, 12 e5m2.
constexpr TypeCode type_codes[] = {
    {DType::f64, 2, 64},  {DType::f32, 2, 32},   {DType::f16, 2, 16}, {DType::bf16, 4, 16},
    {DType::e4m3, 10, 8}, {DType::e5m2, 12, 8},  {DType::i64, 0, 64}, {DType::i32, 0, 32},
    {DType::u8, 1, 8},    {DType::boolean, 6, 8}};

DLDataType code_of(DType dtype) {
  const auto* found = std::find_if(std::begin(type_codes), std::end(type_codes),
                                   [&](const TypeCode& one) { return one.dtype == dtype; });
  return {found->code, found->bits, 1};
}

DType dtype_of_code(const DLDataType& type) {
  const auto* found = std::find_if(
      std::begin(type_codes), std::end(type_codes),
      [&](const TypeCode& one) { return one.code == type.code && one.bits == type.bits; });
  if (found == std::end(type_codes) || type.lanes != 1)
    fail("from_dlpack",
         {.argument = "dtype",
          .expected = "f64, f32, f16, bf16, e4m3fn, e5m2, i64, i32, u8 or bool, one lane",
          .found = "type code " + std::to_string(type.code) + " of " + std::to_string(type.bits) +
                   " bits in " + std::to_string(type.lanes) + " lanes"});
  return found->dtype;
}

Device device_of(const DLDevice& device) {
  if (device.type == cpu_type || device.type == cuda_host_type) return Device::cpu();
  if (device.type == cuda_type) return Device::cuda(device.id);
  fail("from_dlpack", {.argument = "device",
                       .expected = "a CPU or CUDA device",
                       .found = "DLPack device type " + std::to_string(device.type)});
}

// A struct of DLPack with what it points to.
template <class Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  std::vector<int64_t> shape, strides;

  static void release(Managed* managed) { delete static_cast<Exported*>(managed->manager); }
};

void stamp(DLManagedTensor&) {}
void stamp(DLManagedTensorVersioned& managed) { managed.version = our_version; }

template <class Managed>
Managed* exported(const Tensor& tensor) {
  if (!tensor.defined() || tensor.device().is_meta())
    fail("to_dlpack", {.argument = "tensor", .expected = "data", .found = describe(tensor)});
  if (tensor.requires_grad())
    fail("to_dlpack", {.argument = "tensor",
                       .expected = "one that requires no gradient",
                       .found = describe(tensor) + " that requires one",
                       .hint = "hand over tensor.detach()"});
  backend::synchronize(tensor.device());
  auto owner = std::make_unique<Exported<Managed>>();
  owner->tensor = tensor;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    owner->shape.push_back(tensor.shape()[axis]);
    owner->strides.push_back(tensor.strides()[axis]);
  }
  const Device device = tensor.device();
  owner->managed.tensor = {.data = tensor.raw_data(),
                           .device = {device.is_cuda() ? cuda_type : cpu_type, device.index},
                           .rank = tensor.rank(),
                           .dtype = code_of(tensor.dtype()),
                           .shape = owner->shape.data(),
                           .strides = owner->strides.data(),
                           .byte_offset = 0};
  stamp(owner->managed);
  owner->managed.manager = owner.get();
  owner->managed.deleter = &Exported<Managed>::release;
  return &owner.release()->managed;
}

void check_header(const DLManagedTensor&) {}
void check_header(const DLManagedTensorVersioned& managed) {
  if (managed.version.major != our_version.major)
    fail("from_dlpack", {.argument = "version",
                         .expected = "DLPack 1",
                         .found = "DLPack " + std::to_string(managed.version.major)});
  if (managed.flags & read_only_flag)
    fail("from_dlpack", {.argument = "tensor",
                         .expected = "memory that may be written",
                         .found = "a read-only tensor",
                         .hint = "copy it in the library that owns it"});
}

Shape shape_of(const DLTensor& tensor) {
  if (tensor.rank < 0 || tensor.rank > max_rank)
    fail("from_dlpack", {.argument = "rank",
                         .expected = "0 to " + std::to_string(max_rank),
                         .found = std::to_string(tensor.rank)});
  return Shape(std::span<const int64_t>(tensor.shape, static_cast<size_t>(tensor.rank)));
}

// Elements from the lowest address to the highest, and how far the first lies from the lowest.
struct Extent {
  int64_t length = 0, first = 0;
};

Extent extent_of(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return {};
  Extent extent{1, 0};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const int64_t reach = (shape[axis] - 1) * strides[axis];
    if (reach < 0) extent.first -= reach;
    extent.length += std::abs(reach);
  }
  return extent;
}

template <class Managed>
Tensor imported(Managed* managed) {
  if (managed == nullptr)
    fail("from_dlpack", {.argument = "tensor", .expected = "a tensor", .found = "null"});
  // Gives the struct back in all cases, at the latest with the last view.
  std::shared_ptr<Managed> owner(managed, [](Managed* one) {
    if (one->deleter) one->deleter(one);
  });
  check_header(*managed);
  const DLTensor& tensor = managed->tensor;
  const DType dtype = dtype_of_code(tensor.dtype);
  const Device device = device_of(tensor.device);
  const Shape shape = shape_of(tensor);
  backend::synchronize_all(device);
  Strides strides = dense_strides(shape);
  if (tensor.strides)
    for (int axis = 0; axis < shape.rank(); ++axis) strides[axis] = tensor.strides[axis];
  const Extent extent = extent_of(shape, strides);
  const int64_t size = static_cast<int64_t>(size_of(dtype));
  auto* lowest = static_cast<std::byte*>(tensor.data) + tensor.byte_offset - extent.first * size;
  auto storage = std::make_shared<Storage>(lowest, static_cast<size_t>(extent.length * size),
                                           device, [owner, device]() mutable {
                                             backend::synchronize_all(device);
                                             owner.reset();
                                           });
  return Tensor::of_storage(std::move(storage), shape, dense_strides(shape), dtype)
      .strided(shape, strides, extent.first);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor) {
  return exported<DLManagedTensorVersioned>(tensor);
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor) {
  return exported<DLManagedTensor>(tensor);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed) { return imported(managed); }
Tensor from_dlpack(DLManagedTensor* managed) { return imported(managed); }

Tensor from_blob(void* data, const Shape& shape, DType dtype, Device device,
                 std::function<void()> release) {
  const int64_t bytes = shape.numel() * static_cast<int64_t>(size_of(dtype));
  if ((data == nullptr && bytes > 0) || device.is_meta()) {
    fail("from_blob", {.argument = "data",
                       .expected = "memory of a CPU or a GPU",
                       .found = data == nullptr ? "null" : "the meta device"});
  }
  backend::synchronize_all(device);
  auto storage = std::make_shared<Storage>(data, static_cast<size_t>(bytes), device,
                                           [release = std::move(release), device] {
                                             backend::synchronize_all(device);
                                             if (release) release();
                                           });
  return Tensor::of_storage(std::move(storage), shape, dense_strides(shape), dtype);
}

}  // namespace binade
