#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "binade/formats/format.h"

// Formats by their bits. A text is the name of a format that `binade formats` lists, or one of
//
//   [u]eXmY[bB][suffix]   X exponent bits, Y mantissa bits, bias B; u: without a sign
//   intN                  N bits in two's complement, symmetric: -(2^(N-1) - 1) to 2^(N-1) - 1
//
// of 2 to 8 bits. Suffixes:
//
//   ieee   the top exponent holds infinities and NaNs
//   fn     no infinity; only the all-ones magnitude is NaN
//   fnuz   no infinity, no -0: its code is the only NaN; the usual bias is larger by one
//   f      all codes are finite numbers
//
// Without a suffix, a format that OCP defines is OCP's: e4m3 is `fn`; e2m1, e2m3 and e3m2 are `f`,
// also by their names in ml_dtypes, e2m1fn, e2m3fn and e3m2fn. Others are `ieee` if they have a
// mantissa and two exponent bits, else `f`. ueXm0 is a scale like OCP's e8m0: powers of two, all
// ones is NaN, no zero. All numbers must be f32's: the largest below 2^128, the smallest normal one
// at least 2^-126.
namespace binade::formats {

namespace detail {

// Reads a text from its start.
struct FormatText {
  std::string_view rest;

  constexpr bool take(std::string_view word) {
    if (!rest.starts_with(word)) return false;
    rest.remove_prefix(word.size());
    return true;
  }
  // A number of up to three digits without leading zeros; -1 if there is none.
  constexpr int number() {
    size_t digits = 0;
    int value = 0;
    while (digits < rest.size() && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9')
      value = value * 10 + (rest[digits++] - '0');
    const bool leading_zero = digits > 1 && rest[0] == '0';
    if (digits == 0 || digits > 3 || leading_zero) return -1;
    rest.remove_prefix(digits);
    return value;
  }
};

constexpr bool is_ocp_finite(int exponent_bits, int mantissa_bits) {
  for (const Format* format : {&spec::e2m1, &spec::e2m3, &spec::e3m2}) {
    if (format->exponent_bits == exponent_bits && format->mantissa_bits == mantissa_bits)
      return true;
  }
  return false;
}

constexpr Specials usual_specials(int exponent_bits, int mantissa_bits, bool is_unsigned) {
  if (is_unsigned && mantissa_bits == 0) return Specials::exponent_only;
  if (exponent_bits == 4 && mantissa_bits == 3) return Specials::finite;
  if (is_ocp_finite(exponent_bits, mantissa_bits)) return Specials::none;
  return exponent_bits >= 2 && mantissa_bits >= 1 ? Specials::ieee : Specials::none;
}

// Whether conversions can treat a format of up to 8 bits.
constexpr bool is_possible(const Format& format) {
  if (format.bits() < 2 || format.bits() > 8) return false;
  if (format.is_integer()) return true;
  if (format.exponent_bits < 1) return false;
  const bool is_finite = format.specials == Specials::finite;
  if (is_finite && format.exponent_bits + format.mantissa_bits < 2) return false;
  if (format.specials == Specials::ieee && (format.exponent_bits < 2 || format.mantissa_bits < 1))
    return false;
  if (format.specials == Specials::unsigned_zero && format.is_unsigned) return false;
  const int smallest = format.has_zero() ? -126 : -127;
  return format.min_exponent() >= smallest && format.max_exponent() <= 127;
}

// The fields that a text says, without name and use.
constexpr std::optional<Format> parse_fields(std::string_view given) {
  FormatText text{given};
  if (text.take("int")) {
    const Format format{"", 0, text.number() - 1, Specials::integer, ""};
    return format.mantissa_bits >= 1 && text.rest.empty() && is_possible(format)
               ? std::optional(format)
               : std::nullopt;
  }
  if (given == spec::e8m0.name) return spec::e8m0;
  Format format{"", 0, 0, Specials::none, ""};
  format.is_unsigned = text.take("u");
  if (!text.take("e") || (format.exponent_bits = text.number()) < 1) return std::nullopt;
  if (!text.take("m") || (format.mantissa_bits = text.number()) < 0) return std::nullopt;
  if (format.exponent_bits + format.mantissa_bits > 8) return std::nullopt;
  if (text.take("b") && (format.given_bias = text.number()) < 0) return std::nullopt;
  const bool is_ocp = is_ocp_finite(format.exponent_bits, format.mantissa_bits);
  if (text.rest.empty()) {
    format.specials =
        usual_specials(format.exponent_bits, format.mantissa_bits, format.is_unsigned);
  } else if (text.rest == "ieee") {
    format.specials = Specials::ieee;
  } else if (text.rest == "fn") {
    format.specials = is_ocp ? Specials::none : Specials::finite;
  } else if (text.rest == "fnuz") {
    format.specials = Specials::unsigned_zero;
  } else if (text.rest != "f") {
    return std::nullopt;
  }
  if (format.specials == Specials::exponent_only) format.is_unsigned = false;  // it says so itself
  return is_possible(format) ? std::optional(format) : std::nullopt;
}

// The format with a name that lives as long as the program, and the use of a listed one.
Format named(const Format& format);
[[noreturn]] void refuse_format(std::string_view text);

}  // namespace detail

// The shortest text of a format of up to 8 bits.
std::string format_text(const Format& format);

// The format that a text names, if there is one.
std::optional<Format> find_format(std::string_view text);

// The format that a text names; fails for others. A constant expression of a string literal, too:
//
//   constexpr formats::Format e3m4 = formats::parse("e3m4");
//   formats::encode<e3m4>(0.1f);
constexpr Format parse(std::string_view text) {
  if (std::is_constant_evaluated()) {
    std::optional<Format> format = detail::parse_fields(text);
    if (!format) detail::refuse_format(text);
    format->name = text.data();
    return *format;
  }
  const std::optional<Format> format = find_format(text);
  if (!format) detail::refuse_format(text);
  return *format;
}

}  // namespace binade::formats
