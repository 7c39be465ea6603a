#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/io/safetensors.h"
#include "binade/nn/module.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/reduce/reduce.h"
#include "io/temporary_folder.h"

// modules.safetensors: modules of PyTorch with their parameters, inputs, outputs and gradients.
namespace binade::nn::golden {

inline const io::SafetensorsFile& file() {
  static const io::SafetensorsFile opened(testing::golden("modules.safetensors"));
  return opened;
}

inline json::Document cases(const char* name) {
  return json::parse(file().metadata().at(name), {"modules", name});
}

inline bool flag(const json::Value& params, const char* name, bool otherwise = false) {
  const json::Value* value = params.find(name);
  return value == nullptr ? otherwise : value->boolean();
}

inline int64_t whole(const json::Value& params, const char* name, int64_t otherwise) {
  const json::Value* value = params.find(name);
  return value == nullptr ? otherwise : value->integer(0, 1000);
}

inline bool has(const std::string& name) {
  const auto& entries = file().entries();
  return std::any_of(entries.begin(), entries.end(),
                     [&](const io::TensorEntry& entry) { return entry.name == name; });
}

// An input as a leaf with a gradient if it is floating, or an undefined tensor.
inline Tensor input(const std::string& name, const char* key) {
  if (!has(name + "/in/" + key)) return {};
  Tensor x = file().load(name + "/in/" + key);
  if (is_compute(x.dtype())) x.set_requires_grad();
  return x;
}

inline void load(const std::string& name, Module& module) {
  StateDict state;
  const std::string prefix = name + "/state/";
  for (const io::TensorEntry& entry : file().entries()) {
    if (entry.name.starts_with(prefix))
      state[entry.name.substr(prefix.size())] = file().load(entry.name);
  }
  module.load_state_dict(state);
}

// Two f32 computations of at most a few hundred terms of about 1, in another order.
inline constexpr double tolerance = 256 * 0x1p-24;

inline void expect_near(const Tensor& found, const std::string& expected) {
  ASSERT_TRUE(found.defined()) << expected;
  const Tensor wanted = file().load(expected);
  ASSERT_EQ(found.shape(), wanted.shape()) << expected;
  const auto x = to_vector(found), y = to_vector(wanted);
  double largest = 1;
  for (const double value : y) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], y[i], tolerance * largest) << expected << " element " << i;
}

// Checks outputs, then the gradients of all parameters and inputs.
inline void check(const std::string& name, Module& module,
                  const std::vector<std::pair<const char*, Tensor>>& outputs,
                  const std::vector<std::pair<const char*, Tensor>>& inputs) {
  Tensor total = zeros({});
  for (const auto& [key, output] : outputs) {
    expect_near(output, name + "/out/" + key);
    total = total + sum(output * file().load(name + "/dy/" + key));
  }
  total.backward();
  for (const auto& [key, parameter] : module.named_parameters())
    expect_near(parameter.grad(), name + "/grad/" + key);
  for (const auto& [key, x] : inputs) {
    if (x.defined()) expect_near(x.grad(), name + "/din/" + key);
  }
}

}  // namespace binade::nn::golden
