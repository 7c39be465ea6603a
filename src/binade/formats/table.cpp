#include "binade/formats/table.h"

#include <fmt/format.h>

#include "binade/formats/format.h"

namespace binade::formats {

std::string table_text() {
  std::string text =
      fmt::format("{:<9}{:>5}{:>5}{:>5}{:>11}{:>12}{:>15}{:>10}{:>8}  {}\n", "format", "bits",
                  "exp", "man", "max", "min normal", "min subnormal", "epsilon", "digits", "use");
  for (const Format* format : all) {
    const std::string smallest =
        format->has_subnormals() ? fmt::format("{:.3g}", format->min_subnormal()) : "-";
    text += fmt::format("{:<9}{:>5}{:>5}{:>5}{:>11.5g}{:>12.3g}{:>15}{:>10.3g}{:>8.1f}  {}\n",
                        format->name, format->bits(), format->exponent_bits, format->mantissa_bits,
                        format->max(), format->min_normal(), smallest, format->epsilon(),
                        format->decimal_digits(), format->use);
  }
  return text;
}

std::string table_json() {
  std::string json = "[";
  const char* separator = "\n";
  for (const Format* format : all) {
    const std::string smallest =
        format->has_subnormals() ? fmt::format("{}", format->min_subnormal()) : "null";
    json += fmt::format(
        R"({}  {{"name": "{}", "bits": {}, "exponent": {}, "mantissa": {}, "bias": {}, )"
        R"("max": {}, "min_normal": {}, "min_subnormal": {}, "epsilon": {}, )"
        R"("decimal_digits": {}, "infinity": {}, "nan": {}, "use": "{}"}})",
        separator, format->name, format->bits(), format->exponent_bits, format->mantissa_bits,
        format->bias(), format->max(), format->min_normal(), smallest, format->epsilon(),
        format->decimal_digits(), format->has_infinity(), format->has_nan(), format->use);
    separator = ",\n";
  }
  return json + "\n]\n";
}

}  // namespace binade::formats
