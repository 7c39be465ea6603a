#pragma once

#include <array>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "binade/optim/master_weight.h"

namespace binade::optim {

// An option's value as configurations and other languages give it. Several numbers are one option,
// such as betas; a NaN among them is an absent one.
// What no option takes is there for messages.
struct OtherValue {
  std::string text;
};
using OptionValue = std::variant<bool, double, DType, std::string, std::vector<double>, OtherValue>;
using NamedOptions = std::map<std::string, OptionValue>;

// Passes over the options of an optimizer, which names each once in its visit_options(): sets those
// that are given and lists all, in PyTorch's order where PyTorch has them.
class OptionVisitor {
 public:
  OptionVisitor(std::string_view optimizer, const NamedOptions& given);

  void operator()(const char* name, double& value);
  void operator()(const char* name, int& value);
  void operator()(const char* name, bool& value);  // or the numbers 0 and 1
  void operator()(const char* name, DType& value);
  void operator()(const char* name, std::string& value);
  void operator()(const char* name, std::initializer_list<double*> values);
  void operator()(const char* name, std::optional<double>& value);

  // The options that were passed over.
  const std::vector<std::string>& names() const { return names_; }
  // Fails if a given option was none of these.
  void finish() const;

 private:
  template <class T>
  const T* find(const char* name, const char* expected);
  [[noreturn]] void refuse(const char* name, const char* expected) const;

  std::string optimizer_;
  const NamedOptions& given_;
  std::vector<std::string> names_;
};

std::string to_string(const OptionValue& value);

// Fails unless low <= value < high, or value is finite if high is infinite.
struct OptionRange {
  const char* argument;
  double value;
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
};
void require(std::string_view optimizer, std::initializer_list<OptionRange> ranges);

}  // namespace binade::optim
