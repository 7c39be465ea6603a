#include "binade/io/families/config_values.h"

#include <fmt/format.h>

namespace binade::io {

const json::Value* given(const json::Value& root, std::string_view name) {
  const json::Value* value = name.empty() ? nullptr : root.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

int64_t size_or(const json::Value& root, std::string_view name, int64_t otherwise) {
  const json::Value* value = given(root, name);
  return value == nullptr ? otherwise : value->integer(1, max_size);
}

double positive_or(const json::Value& root, std::string_view name, double otherwise, double most) {
  const json::Value* value = given(root, name);
  if (value == nullptr) return otherwise;
  if (value->number() <= 0 || value->number() > most)
    value->refuse(fmt::format("more than 0 and at most {:g}", most), value->describe());
  return value->number();
}

bool flag_or(const json::Value& root, std::string_view name, bool otherwise) {
  const json::Value* value = given(root, name);
  return value == nullptr ? otherwise : value->boolean();
}

void require_flag(const json::Value& root, std::string_view name, bool needed) {
  if (flag_or(root, name, needed) == needed) return;
  root.at(name).refuse(needed ? "true" : "false", needed ? "false" : "true",
                       "Binade has no such variant");
}

}  // namespace binade::io
