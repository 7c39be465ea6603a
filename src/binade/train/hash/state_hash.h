#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "binade/data/batches.h"
#include "binade/tensor/tensor.h"

namespace binade::train {

// Hashes of a run's state between two steps, by its parts. Each is a sum over elements
// (backend/positional_hash.h), so that ranks add up those of what they have.
struct StateHash {
  uint64_t weights = 0;  // parameters and their f32 master weights
  uint64_t moments = 0;  // the optimizer's state beside these, and its counts
  uint64_t scales = 0;   // loss scale, histories of delayed scales, other buffers, skipped steps
  uint64_t data = 0;     // all batches so far, and the number of steps

  bool operator==(const StateHash&) const = default;
};

struct StatePart {
  std::string_view name;
  uint64_t StateHash::*hash;
};
inline constexpr std::array<StatePart, 4> state_parts = {{{"weights", &StateHash::weights},
                                                          {"moments", &StateHash::moments},
                                                          {"scales", &StateHash::scales},
                                                          {"data", &StateHash::data}}};

// The names of the parts that differ: "weights, moments". Empty if none does.
std::string differing_parts(const StateHash& a, const StateHash& b);

// Adds up tensors of one device and of the host.
class TensorHasher {
 public:
  explicit TensorHasher(Device device);

  // Tensors with elements at the same positions are told apart by `name`. `x` holds the elements
  // from `begin` on of the tensor of that name.
  void add(std::string_view name, const Tensor& x, int64_t begin = 0);
  void add(std::string_view name, double value);
  // Waits for the device.
  uint64_t sum() const;

 private:
  Tensor host_, device_;
};

// The hash of a batch as one of those of all steps.
uint64_t hash_of(const data::Batch& batch, int64_t step, int64_t micro);

}  // namespace binade::train
