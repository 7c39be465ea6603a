#include "binade/formats/table.h"

#include <fmt/format.h>

#include <cmath>

#include "binade/formats/format.h"

namespace binade::formats {
namespace {

// The fields of a code as digits: "0 00001 0000000000".
std::string code_text(const Format& format, uint32_t code) {
  std::string text;
  for (int bit = format.bits() - 1; bit >= 0; --bit) {
    text += (code >> bit & 1) != 0 ? '1' : '0';
    const bool ends_sign = format.is_signed() && bit == format.bits() - 1;
    if (bit > 0 && (ends_sign || bit == format.mantissa_bits)) text += ' ';
  }
  return text;
}

template <const Format& F>
std::string number_line(double exact) {
  const uint32_t code = encode<F>(static_cast<float>(exact));
  const double value = decode<F>(code);
  const double error = exact == 0 ? 0 : std::abs(value - exact) / std::abs(exact);
  const char* note = "";
  if (std::abs(exact) > F.max() && (!std::isfinite(value) || std::abs(value) == F.max())) {
    note = "overflows";
  } else if (value == 0 && exact != 0) {
    note = "underflows to zero";
  } else if (value != 0 && std::abs(value) < F.min_normal()) {
    note = "subnormal";
  }
  const std::string line =
      fmt::format("{:<9} {:<35} {:>12.5g} {:>9}  {}", F.name, code_text(F, code), value,
                  std::isfinite(error) ? fmt::format("{:.3g}%", 100 * error) : "-", note);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

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

std::string layout_text() {
  std::string text;
  for (const Format* format : all) {
    std::string bits = format->is_signed() ? "S " : "";
    bits += std::string(static_cast<size_t>(format->exponent_bits), 'E');
    if (format->mantissa_bits > 0)
      bits += ' ' + std::string(static_cast<size_t>(format->mantissa_bits), 'M');
    text += fmt::format("{:<9} {:<35} {}{} + {} = {} bits\n", format->name, bits,
                        format->is_signed() ? "1 + " : "", format->exponent_bits,
                        format->mantissa_bits, format->bits());
  }
  return text;
}

std::string number_text(double number, double scale) {
  const double exact = number * scale;
  std::string text = scale == 1 ? "" : fmt::format("{} x {} = {:.6g}\n", number, scale, exact);
  text += fmt::format("{:<9} {:<35} {:>12} {:>9}\n", "format", "sign exponent mantissa", "value",
                      "error");
  text += number_line<spec::f32>(exact) + number_line<spec::tf32>(exact) +
          number_line<spec::f16>(exact) + number_line<spec::bf16>(exact) +
          number_line<spec::e4m3>(exact) + number_line<spec::e4m3fnuz>(exact) +
          number_line<spec::e5m2>(exact) + number_line<spec::e2m1>(exact);
  return text;
}

}  // namespace binade::formats
