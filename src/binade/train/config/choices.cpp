#include "binade/train/config/choices.h"

#include "binade/base/error.h"
#include "binade/base/json.h"

namespace binade::train {

Precision parse_precision(std::string_view text) {
  if (const auto found = find_named(precision_names, text)) return *found;
  std::string known = "one of";
  for (const auto& [name, value] : precision_names) known += " " + std::string(name);
  fail("config", {.argument = "precision", .expected = known, .found = json::in_quotes(text)});
}

}  // namespace binade::train
