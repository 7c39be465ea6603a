#include "binade/backend/backend.h"

#include "binade/backend/cpu/kernels.h"
#include "binade/backend/meta.h"
#include "binade/backend/profile.h"

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

}  // namespace

const Backend& of(Device device) {
  if (const Backend* timed = profiled(device)) return *timed;
  switch (device.kind) {
    case Device::Kind::cpu:
      return cpu_table();
    case Device::Kind::meta:
      return meta::table();
    case Device::Kind::cuda:
      break;
  }
  fail("backend", {.argument = "device",
                   .expected = "cpu or meta",
                   .found = to_string(device),
                   .hint = "this build has no CUDA backend"});
}

}  // namespace binade::backend
