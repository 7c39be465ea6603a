#include "binade/c/handles.h"

#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"
#include "binade/version.h"

namespace binade::c {
namespace {

// As errno: a caller reads the error of its own call.
thread_local std::string last_error;

}  // namespace

bnd_status failed(bnd_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

DType type_of(bnd_dtype dtype) {
  if (dtype < BND_F64 || dtype > BND_BOOL)
    fail("bnd_dtype", {.expected = "BND_F64 to BND_BOOL", .found = std::to_string(dtype)});
  return static_cast<DType>(dtype);
}

bnd_dtype code_of(DType dtype) { return static_cast<bnd_dtype>(dtype); }
static_assert(static_cast<int>(DType::f64) == BND_F64 &&
              static_cast<int>(DType::bf16) == BND_BF16 &&
              static_cast<int>(DType::boolean) == BND_BOOL);

Device device_of(bnd_device device) {
  switch (device.kind) {
    case BND_CPU:
      return Device::cpu();
    case BND_CUDA:
      return Device::cuda(device.index);
    case BND_META:
      return Device::meta();
  }
  fail("bnd_device", {.expected = "BND_CPU, BND_CUDA or BND_META",
                      .found = std::to_string(static_cast<int>(device.kind))});
}

bnd_device code_of(Device device) {
  return {device.is_cuda() ? BND_CUDA : device.is_meta() ? BND_META : BND_CPU, device.index};
}

std::vector<Tensor> tensors_of(const bnd_tensor* const* handles, size_t count,
                               const char* function) {
  if (count > 0) checked(handles, function, "tensors");
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) tensors.push_back(handles[i] ? handles[i]->value : Tensor());
  return tensors;
}

}  // namespace binade::c

using namespace binade;
using namespace binade::c;

extern "C" {

const char* bnd_last_error(void) { return last_error.c_str(); }

const char* bnd_version(void) { return version(); }

bnd_status bnd_set_threads(int threads) {
  return guarded([&] { set_threads(threads); });
}

int bnd_gpu_count(void) { return static_cast<int>(backend::gpus().size()); }

bnd_status bnd_synchronize(bnd_device device) {
  return guarded([&] { backend::synchronize(device_of(device)); });
}
}
