#include "binade/amp/capability.h"

#include "binade/backend/gpu.h"
#include "binade/base/cpu_features.h"

namespace binade::amp {
namespace {

Support cpu_support(DType dtype) {
  const CpuFeatures& cpu = cpu_features();
  if (dtype == DType::f32 || dtype == DType::f64) return Support::native;
  if (dtype == DType::bf16 && (cpu.neon_bf16 || cpu.avx512_bf16 || cpu.amx_bf16))
    return Support::native;
  return is_floating(dtype) ? Support::emulated : Support::none;
}

Support gpu_support(DType dtype, int index) {
  const auto& gpus = backend::gpus();
  if (static_cast<size_t>(index) >= gpus.size()) return Support::none;
  const int capability = gpus[static_cast<size_t>(index)].capability();
  if (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16) return Support::native;
  if (dtype == DType::bf16) return capability >= 80 ? Support::native : Support::emulated;
  if (is_quantized(dtype)) return capability >= 89 ? Support::native : Support::emulated;
  return Support::none;
}

bool supported(DType dtype, Device device, bool including_emulation) {
  const Support support = matmul_support(dtype, device);
  return support == Support::native || (including_emulation && support == Support::emulated);
}

}  // namespace

std::string_view name(Support support) {
  constexpr std::string_view names[] = {"none", "emulated", "native"};
  return names[static_cast<size_t>(support)];
}

Support matmul_support(DType dtype, Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return cpu_support(dtype);
    case Device::Kind::cuda:
      return gpu_support(dtype, device.index);
    case Device::Kind::meta:
      break;
  }
  return Support::none;
}

bool is_bf16_supported(Device device, bool including_emulation) {
  return supported(DType::bf16, device, including_emulation);
}
bool is_f16_supported(Device device, bool including_emulation) {
  return supported(DType::f16, device, including_emulation);
}
bool is_fp8_supported(Device device, bool including_emulation) {
  return supported(DType::e4m3, device, including_emulation);
}

}  // namespace binade::amp
