#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/binade.h"

// How the ops of ops.safetensors are called, by the names and parameters of PyTorch.
namespace binade::io {

using Inputs = std::map<std::string, Tensor>;
using Outputs = std::vector<Tensor>;

class Params {
 public:
  explicit Params(const json::Value& value) : value_(value) {}
  double number(const char* name) const { return value_.at(name).number(); }
  int64_t integer(const char* name) const { return value_.at(name).integer(INT64_MIN, INT64_MAX); }
  bool flag(const char* name) const { return value_.at(name).boolean(); }
  std::string text(const char* name) const { return value_.at(name).string(); }
  std::vector<int64_t> integers(const char* name) const {
    std::vector<int64_t> values;
    for (const json::Value& item : value_.at(name).array())
      values.push_back(item.integer(INT64_MIN, INT64_MAX));
    return values;
  }
  std::optional<double> number_or_none(const char* name) const {
    const json::Value& value = value_.at(name);
    return value.is_null() ? std::nullopt : std::optional(value.number());
  }
  Reduce reduction() const {
    const std::string name = text("reduction");
    return name == "mean" ? Reduce::mean : name == "none" ? Reduce::none : Reduce::sum;
  }

 private:
  const json::Value& value_;
};

inline Tensor optional(const Inputs& in, const char* name) {
  const auto found = in.find(name);
  return found == in.end() ? Tensor() : found->second;
}

using Op = std::function<Outputs(const Params&, const Inputs&)>;

// Those that ops_rearrange.py records.
const std::map<std::string, Op>& rearranging_golden_ops();

}  // namespace binade::io
