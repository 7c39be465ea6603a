#pragma once

#include "binade/tensor/device.h"
#include "binade/tensor/dtype.h"

namespace binade::amp {

// How a device multiplies matrices of a type.
enum class Support : uint8_t {
  none,      // not at all
  emulated,  // right, by way of a wider type: no faster than that one
  native,    // by instructions of its own
};
std::string_view name(Support support);

// Types f32, f16, bf16, e4m3 and e5m2.
Support matmul_support(DType dtype, Device device);

// Whether autocast to the type is possible there, natively or by emulation.
bool is_bf16_supported(Device device, bool including_emulation = true);
bool is_f16_supported(Device device, bool including_emulation = true);
bool is_fp8_supported(Device device, bool including_emulation = true);

}  // namespace binade::amp
