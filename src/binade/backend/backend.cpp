#include "binade/backend/backend.h"

#include "binade/backend/audit/auditor.h"
#include "binade/backend/cpu/kernels.h"
#include "binade/backend/meta.h"
#include "binade/backend/profile.h"

#ifdef BINADE_CUDA
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/kernels.h"
#endif

namespace binade::backend {
namespace {

const Backend& cpu_table() {
  static const Backend backend{.elementwise = cpu::elementwise_kernels,
                               .reduce = cpu::reduce_kernels,
                               .scan = cpu::scan_kernels,
                               .index = cpu::index_kernels,
                               .matmul = cpu::matmul_kernels,
                               .conv = cpu::conv_kernels,
                               .pool = cpu::pool_kernels,
                               .norm = cpu::norm_kernels,
                               .softmax = cpu::softmax_kernels,
                               .attention = cpu::attention_kernels,
                               .activation = cpu::activation_kernels,
                               .loss = cpu::loss_kernels,
                               .optimizer = cpu::optimizer_kernels,
                               .scaler = cpu::scaler_kernels,
                               .quantize = cpu::quantize_kernels};
  return backend;
}

#ifdef BINADE_CUDA

const Backend& cuda_table() {
  static const Backend backend{.elementwise = cuda::elementwise_kernels,
                               .reduce = cuda::reduce_kernels,
                               .scan = cuda::scan_kernels,
                               .index = cuda::index_kernels,
                               .matmul = cuda::matmul_kernels,
                               .conv = cuda::conv_kernels,
                               .pool = cuda::pool_kernels,
                               .norm = cuda::norm_kernels,
                               .softmax = cuda::softmax_kernels,
                               .attention = cuda::attention_kernels,
                               .activation = cuda::activation_kernels,
                               .loss = cuda::loss_kernels,
                               .optimizer = cuda::optimizer_kernels,
                               .scaler = cuda::scaler_kernels,
                               .quantize = cuda::quantize_kernels,
                               .channels_last = true};
  return backend;
}

#endif

}  // namespace

const Backend& of(Device device) {
  if (const Backend* timed = profiled(device)) return *timed;
  if (const Backend* checked = audited(device)) return *checked;
  switch (device.kind) {
    case Device::Kind::cpu:
      return cpu_table();
    case Device::Kind::meta:
      return meta::table(device);
    case Device::Kind::cuda:
#ifdef BINADE_CUDA
      cuda::activate(device);
      return cuda_table();
#else
      break;
#endif
  }
  fail("backend", {.argument = "device",
                   .expected = "cpu or meta",
                   .found = to_string(device),
                   .hint = "this build has no CUDA backend: configure with -DBINADE_CUDA=ON"});
}

}  // namespace binade::backend
