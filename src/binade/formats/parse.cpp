#include "binade/formats/parse.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "binade/base/error.h"
#include "binade/base/text.h"

namespace binade::formats {
namespace {

std::string_view suffix_of(Specials specials) {
  switch (specials) {
    case Specials::ieee:
      return "ieee";
    case Specials::finite:
      return "fn";
    case Specials::unsigned_zero:
      return "fnuz";
    default:
      return "f";
  }
}

const Format* listed(const Format& format) {
  for (const Format* one : {&spec::e4m3, &spec::e4m3fnuz, &spec::e5m2, &spec::e8m0, &spec::e2m1,
                            &spec::e2m3, &spec::e3m2, &spec::int8, &spec::int4}) {
    if (*one == format) return one;
  }
  return nullptr;
}

}  // namespace

namespace detail {

Format named(const Format& format) {
  if (const Format* known = listed(format)) return *known;
  // Few: formats of up to 8 bits are not many, and programs use few of them.
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  Format result = format;
  result.name = names.insert(format_text(format)).first->c_str();
  result.use = "by its bits";
  return result;
}

void refuse_format(std::string_view text) {
  fail("formats", {.argument = "format",
                   .expected = "one that 'binade formats' lists, or one of 2 to 8 bits such as "
                               "e3m4, e4m3b11fnuz, ue5m3 or int4",
                   .found = fmt::format("\"{}\"", visible(shortened(text, 80)))});
}

}  // namespace detail

std::string format_text(const Format& format) {
  if (format.is_integer()) return fmt::format("int{}", format.bits());
  if (format == spec::e8m0) return spec::e8m0.name;
  const bool is_scale = format.specials == Specials::exponent_only;
  std::string text = fmt::format("{}e{}m{}", format.is_unsigned || is_scale ? "u" : "",
                                 format.exponent_bits, format.mantissa_bits);
  Format usual = format;
  usual.given_bias = -1;
  if (usual.bias() != format.bias()) text += fmt::format("b{}", format.bias());
  const std::optional<Format> plain = detail::parse_fields(text);
  if (!plain || !(*plain == format)) text += suffix_of(format.specials);
  return text;
}

std::optional<Format> find_format(std::string_view text) {
  for (const Format* format : all) {
    if (text == format->name) return *format;
  }
  const std::optional<Format> fields = detail::parse_fields(text);
  return fields ? std::optional(detail::named(*fields)) : std::nullopt;
}

}  // namespace binade::formats
