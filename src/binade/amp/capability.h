#pragma once

#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"

namespace binade::amp {

// How a device runs matmuls of a dtype.
enum class Support : uint8_t {
  none,      // unsupported
  emulated,  // in a wider dtype, at that dtype's speed; results are correct
  native,    // by hardware instructions
};
std::string_view name(Support support);

// For f32, f16, bf16, e4m3 and e5m2.
Support matmul_support(DType dtype, Device device);

// Whether a device can run autocast to the dtype, natively or by emulation.
bool is_bf16_supported(Device device, bool including_emulation = true);
bool is_f16_supported(Device device, bool including_emulation = true);
bool is_fp8_supported(Device device, bool including_emulation = true);

}  // namespace binade::amp
