#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/c/handles.h"

namespace binade::c {

// The options of one call, checked against the op's signature.
class Options {
 public:
  Options(const bnd_option* options, size_t count, std::string_view signature)
      : options_(options), count_(count) {
    if (count > 0) checked(options, "bnd_op", "options");
    for (size_t i = 0; i < count; ++i) {
      checked(options[i].name, "bnd_op", "option's name");
      const std::string_view name = options[i].name;
      const std::string_view known =
          signature.substr(std::min(signature.find(';'), signature.size()));
      if (!names(known, name))
        fail("bnd_op", {.argument = "option " + std::string(name),
                        .expected = std::string(signature),
                        .found = "an option that the op does not have"});
    }
  }

  bool has(std::string_view name) const {
    return std::any_of(options_, options_ + count_,
                       [&](const bnd_option& one) { return one.name == name; });
  }
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {}) const {
    const bnd_option* option = find(name, BND_INT, otherwise.has_value());
    return option ? option->integer : *otherwise;
  }
  double number(std::string_view name, std::optional<double> otherwise = {}) const {
    const bnd_option* option = find(name, BND_FLOAT, otherwise.has_value());
    if (option == nullptr) return *otherwise;
    return option->kind == BND_INT ? static_cast<double>(option->integer) : option->number;
  }
  bool flag(std::string_view name) const { return integer(name, 0) != 0; }
  std::vector<int64_t> list(std::string_view name,
                            std::optional<std::vector<int64_t>> otherwise = {}) const {
    const bnd_option* option = find(name, BND_INTS, otherwise.has_value());
    if (option == nullptr) return *otherwise;
    if (option->kind == BND_INT) return {option->integer};
    return {option->list, option->list + option->count};
  }
  std::string text(std::string_view name, const char* otherwise = nullptr) const {
    const bnd_option* option = find(name, BND_TEXT, otherwise != nullptr);
    return option ? option->text : otherwise;
  }
  Shape shape(std::string_view name) const { return Shape(std::span<const int64_t>(list(name))); }

 private:
  // Whether the part of a signature behind ';' has an option of this name.
  static bool names(std::string_view known, std::string_view name) {
    for (size_t at = known.find(name); at != std::string_view::npos;
         at = known.find(name, at + 1)) {
      const bool begins = at > 0 && known[at - 1] == ' ';
      const size_t end = at + name.size();
      if (begins && end < known.size() &&
          std::string_view(" ,)").find(known[end]) != std::string_view::npos)
        return true;
    }
    return false;
  }

  const bnd_option* find(std::string_view name, bnd_option_kind kind, bool optional) const {
    for (size_t i = 0; i < count_; ++i) {
      if (options_[i].name != name) continue;
      const bool widened = options_[i].kind == BND_INT && (kind == BND_FLOAT || kind == BND_INTS);
      if (options_[i].kind != kind && !widened)
        fail("bnd_op", {.argument = "option " + std::string(name),
                        .expected = kind_name(kind),
                        .found = kind_name(options_[i].kind)});
      return &options_[i];
    }
    if (!optional)
      fail("bnd_op", {.argument = "option " + std::string(name),
                      .expected = kind_name(kind),
                      .found = "none"});
    return nullptr;
  }

  static const char* kind_name(bnd_option_kind kind) {
    constexpr const char* names[] = {"an integer", "a number", "a list of integers", "a text"};
    return kind >= BND_INT && kind <= BND_TEXT ? names[kind] : "an unknown kind";
  }

  const bnd_option* options_;
  size_t count_;
};

}  // namespace binade::c
