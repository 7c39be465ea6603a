#include "binade/formats/table.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "binade/base/json.h"

namespace binade::formats {
namespace {

// The fields of a code as digits: "0 00001 0000000000".
std::string code_text(const Format& format, uint32_t code) {
  std::string text;
  for (int bit = format.bits() - 1; bit >= 0; --bit) {
    text += (code >> bit & 1) != 0 ? '1' : '0';
    const bool ends_sign = format.is_signed() && bit == format.bits() - 1;
    const bool ends_exponent = format.exponent_bits > 0 && bit == format.mantissa_bits;
    if (bit > 0 && (ends_sign || ends_exponent)) text += ' ';
  }
  return text;
}

// x in f32, rounded to odd: rounding it again to fewer bits gives what rounding x once gives.
float rounded_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x) return nearest;
  const bool is_above = std::abs(static_cast<double>(nearest)) > std::abs(x);
  const float below = is_above ? std::nextafter(nearest, 0.0f) : nearest;
  return std::copysign(float_from_bits(float_bits(below) | 1), static_cast<float>(x));
}

// A number and its rounding.
struct Rounded {
  Format format;
  double exact;
  uint32_t code;
  double value;
  // The format's numbers on either side of the value, if there are any.
  std::optional<uint32_t> below = {}, above = {};

  double decoded(uint32_t of) const { return detail::decode_fields(detail::fields_of(format), of); }
  double relative_error() const {
    return exact == 0 ? 0 : std::abs(value - exact) / std::abs(exact);
  }
  const char* note() const {
    if (std::abs(exact) > format.max() &&
        (!std::isfinite(value) || std::abs(value) == format.max()))
      return "overflows";
    if (std::isnan(value)) return "negative numbers do not exist";
    if (value == 0 && exact != 0) return "underflows to zero";
    if (value != 0 && std::abs(value) < format.min_normal()) return "subnormal";
    return "";
  }
};

// The code of the number `steps` numbers above a finite one's code, if there is one: numbers count
// up from -max_code to max_code, zero once.
std::optional<uint32_t> neighbor(const Format& format, uint32_t code, int steps) {
  const auto sign = static_cast<int64_t>(format.sign_mask());
  const auto max_code = static_cast<int64_t>(format.max_code());
  const bool negative = (code & format.sign_mask()) != 0;
  int64_t position = code;
  if (negative) position = format.is_integer() ? code - 2 * sign : sign - position;
  position += steps;
  if (position > max_code || position < (format.is_signed() ? -max_code : 0)) return {};
  if (position >= 0) return static_cast<uint32_t>(position);
  return static_cast<uint32_t>(format.is_integer() ? position + 2 * sign : sign - position);
}

Rounded rounded(double exact, const Format& format) {
  const float x = format == spec::f32 ? static_cast<float>(exact) : rounded_to_odd(exact);
  const detail::Fields fields = detail::fields_of(format);
  const uint32_t code =
      detail::encode_fields(fields, x, Rounding::nearest_even, Overflow::special, 0);
  Rounded result{format, exact, code, detail::decode_fields(fields, code)};
  if (std::isfinite(result.value)) {
    result.below = neighbor(format, code, -1);
    result.above = neighbor(format, code, 1);
  } else if (exact > 0) {
    result.below = static_cast<uint32_t>(format.max_code());
  } else if (format.is_signed()) {
    result.above = static_cast<uint32_t>(format.sign_mask() | format.max_code());
  }
  return result;
}

std::string percent_text(double error) {
  return std::isfinite(error) ? fmt::format("{:.3g}%", 100 * error) : "-";
}

std::string number_line(double exact, const Format& format) {
  const Rounded number = rounded(exact, format);
  const std::string line =
      fmt::format("{:<9} {:<35} {:>12.5g} {:>9}  {}", format.name, code_text(format, number.code),
                  number.value, percent_text(number.relative_error()), number.note());
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// The fields of a format as letters: "S EEEE MMM".
std::string letters_text(const Format& format) {
  std::string bits = format.is_signed() ? "S" : "";
  const auto add = [&](int count, char letter) {
    if (count == 0) return;
    if (!bits.empty()) bits += ' ';
    bits.append(static_cast<size_t>(count), letter);
  };
  add(format.exponent_bits, 'E');
  add(format.mantissa_bits, 'M');
  return bits;
}

std::string scaled_text(double number, double scale) {
  return scale == 1 ? "" : fmt::format("{} x {} = {:.6g}\n", number, scale, number * scale);
}

void write_number(json::Writer& out, const char* key, double value) {
  out.key(key);
  if (std::isfinite(value)) {
    out.value(value);
  } else {
    out.value(nullptr);
  }
}

void write_rounded(json::Writer& out, const Rounded& number) {
  out.begin_object().key("name").value(number.format.name);
  out.key("code").value(static_cast<int64_t>(number.code));
  out.key("bits").value(code_text(number.format, number.code));
  write_number(out, "value", number.value);
  write_number(out, "error", number.value - number.exact);
  write_number(out, "relative_error", number.relative_error());
  write_number(out, "below", number.below ? number.decoded(*number.below) : NAN);
  write_number(out, "above", number.above ? number.decoded(*number.above) : NAN);
  out.key("note").value(number.note()).end_object();
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
    text += fmt::format("{:<9} {:<35} {}{} + {} = {} bits\n", format->name, letters_text(*format),
                        format->is_signed() ? "1 + " : "", format->exponent_bits,
                        format->mantissa_bits, format->bits());
  }
  return text;
}

std::span<const Format> number_formats() {
  static constexpr Format signed_formats[] = {spec::f32,  spec::tf32,     spec::f16,  spec::bf16,
                                              spec::e4m3, spec::e4m3fnuz, spec::e5m2, spec::e2m1};
  return signed_formats;
}

std::string number_text(double number, double scale) {
  std::string text = scaled_text(number, scale);
  text += fmt::format("{:<9} {:<35} {:>12} {:>9}\n", "format", "sign exponent mantissa", "value",
                      "error");
  for (const Format& format : number_formats()) text += number_line(number * scale, format);
  return text;
}

std::string number_text(double number, double scale, const Format& format) {
  const Rounded found = rounded(number * scale, format);
  const int digits = (format.bits() + 3) / 4;
  std::string text = scaled_text(number, scale);
  text +=
      fmt::format("format   {}: {} bits, {}largest {:.6g}\n", format.name, format.bits(),
                  format.is_integer() ? "" : fmt::format("bias {}, ", format.bias()), format.max());
  const auto line = [&](const char* name, const std::optional<uint32_t>& code) {
    if (!code) return fmt::format("{:<8} -\n", name);
    return fmt::format("{:<8} {:<14.9g} 0x{:0{}x}\n", name, found.decoded(*code), *code, digits);
  };
  text += line("above", found.above) + line("value", found.code) + line("below", found.below);
  text += fmt::format("error    {:<14.6g} {}\n", found.value - found.exact,
                      percent_text(found.relative_error()));
  text += fmt::format("bits     {}\n         {}\n", letters_text(format),
                      code_text(format, found.code));
  return *found.note() == 0 ? text : text + fmt::format("note     {}\n", found.note());
}

std::string number_json(double number, double scale, std::span<const Format> formats) {
  json::Writer out(2);
  out.begin_object();
  out.key("number").value(number).key("scale").value(scale);
  out.key("formats").begin_array();
  for (const Format& format : formats) write_rounded(out, rounded(number * scale, format));
  return out.end_array().end_object().text() + "\n";
}

}  // namespace binade::formats
