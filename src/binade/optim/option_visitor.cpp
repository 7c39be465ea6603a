#include "binade/optim/option_visitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"
#include "binade/base/text.h"

namespace binade::optim {

OptionVisitor::OptionVisitor(std::string_view optimizer, const NamedOptions& given)
    : optimizer_(optimizer), given_(given) {}

template <class T>
const T* OptionVisitor::find(const char* name, const char* expected) {
  names_.emplace_back(name);
  const auto found = given_.find(name);
  if (found == given_.end()) return nullptr;
  if (const T* value = std::get_if<T>(&found->second)) return value;
  refuse(name, expected);
}

void OptionVisitor::refuse(const char* name, const char* expected) const {
  fail(optimizer_, {.argument = name, .expected = expected, .found = to_string(given_.at(name))});
}

void OptionVisitor::operator()(const char* name, double& value) {
  if (const auto* given = find<double>(name, "a number")) value = *given;
}

void OptionVisitor::operator()(const char* name, std::optional<double>& value) {
  if (const auto* given = find<double>(name, "a number")) value = *given;
}

void OptionVisitor::operator()(const char* name, int& value) {
  const auto* given = find<double>(name, "an integer");
  if (given == nullptr) return;
  if (!(std::abs(*given) <= std::numeric_limits<int>::max()) || *given != std::floor(*given))
    refuse(name, "an integer");
  value = static_cast<int>(*given);
}

void OptionVisitor::operator()(const char* name, bool& value) {
  constexpr const char* expected = "true or false";
  const auto given = given_.find(name);
  const double* number = given == given_.end() ? nullptr : std::get_if<double>(&given->second);
  if (number == nullptr) {
    if (const auto* flag = find<bool>(name, expected)) value = *flag;
    return;
  }
  names_.emplace_back(name);
  if (*number != 0 && *number != 1) refuse(name, expected);
  value = *number == 1;
}

void OptionVisitor::operator()(const char* name, DType& value) {
  if (const auto* given = find<DType>(name, "a dtype")) value = *given;
}

void OptionVisitor::operator()(const char* name, std::string& value) {
  if (const auto* given = find<std::string>(name, "a string")) value = *given;
}

void OptionVisitor::operator()(const char* name, std::initializer_list<double*> values) {
  const auto* given = find<std::vector<double>>(name, "a tuple of numbers");
  if (given == nullptr) return;
  if (given->size() != values.size())
    refuse(name, fmt::format("{} numbers", values.size()).c_str());
  size_t i = 0;
  for (double* value : values) *value = (*given)[i++];
}

void OptionVisitor::finish() const {
  for (const auto& [name, value] : given_) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
    fail(optimizer_,
         {.argument = "options", .expected = listed(names_, "and"), .found = "'" + name + "'"});
  }
}

std::string to_string(const OptionValue& value) {
  struct Text {
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(double x) const { return fmt::format("{}", x); }
    std::string operator()(DType x) const { return std::string(binade::name(x)); }
    std::string operator()(const std::string& x) const { return "'" + x + "'"; }
    std::string operator()(const OtherValue& x) const { return x.text; }
    std::string operator()(const std::vector<double>& x) const {
      return fmt::format("({})", fmt::join(x, ", "));
    }
  };
  return std::visit(Text{}, value);
}

void require(std::string_view optimizer, std::initializer_list<OptionRange> ranges) {
  for (const OptionRange& range : ranges) {
    if (range.value >= range.low && range.value < range.high) continue;  // false for NaN
    const auto text = [](double x) { return fmt::format("{:g}", x); };
    fail(optimizer,
         {.argument = range.argument,
          .expected = std::isinf(range.high) ? "a finite number of at least " + text(range.low)
                                             : text(range.low) + " up to " + text(range.high),
          .found = text(range.value)});
  }
}

}  // namespace binade::optim
