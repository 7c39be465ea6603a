#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade {

// The device of a tensor. Tensors on `meta` have shapes, types and memory accounting but no data.
struct Device {
  enum class Kind : uint8_t { cpu, cuda, meta };

  Kind kind = Kind::cpu;
  int index = 0;

  static constexpr Device cpu() { return {Kind::cpu, 0}; }
  static constexpr Device cuda(int index = 0) { return {Kind::cuda, index}; }
  static constexpr Device meta() { return {Kind::meta, 0}; }
  // A meta device on which ops keep and allocate what they would on a GPU.
  static constexpr Device meta_gpu() { return {Kind::meta, 1}; }

  constexpr bool is_cpu() const { return kind == Kind::cpu; }
  constexpr bool is_cuda() const { return kind == Kind::cuda; }
  constexpr bool is_meta() const { return kind == Kind::meta; }
  // The same kind, whichever its index: device.type() == kCUDA.
  constexpr Device type() const { return {kind, 0}; }
  constexpr bool operator==(const Device&) const = default;
};

// "cpu", "cuda:0", "meta".
std::string to_string(Device device);

// The inverse of to_string; "cuda" means "cuda:0". Fails on anything else.
Device parse_device(std::string_view text);

}  // namespace binade
