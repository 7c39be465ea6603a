#include "binade/formats/format.h"

#include "binade/base/parallel.h"
#include "binade/formats/table.h"
#include "bindings.h"
#include "codec.h"

namespace binade::python {
namespace {

using formats::Format;

void bind_format_class(nb::module_& m) {
  nb::class_<Format>(m, "Format", "A number format: its fields and its limits.")
      .def_prop_ro("name", [](const Format& self) { return self.name; })
      .def_prop_ro("use", [](const Format& self) { return self.use; })
      .def_ro("exponent_bits", &Format::exponent_bits)
      .def_ro("mantissa_bits", &Format::mantissa_bits)
      .def_prop_ro("bits", &Format::bits)
      .def_prop_ro("bias", &Format::bias)
      .def_prop_ro("max", &Format::max, "The largest finite number.")
      .def_prop_ro("min_normal", &Format::min_normal)
      .def_prop_ro("min_subnormal", &Format::min_subnormal, "0 if there are none.")
      .def_prop_ro("epsilon", &Format::epsilon, "The distance from 1 to the next larger number.")
      .def_prop_ro("has_infinity", &Format::has_infinity)
      .def_prop_ro("has_nan", &Format::has_nan)
      .def("__repr__",
           [](const Format& self) { return "<binade format " + std::string(self.name) + ">"; });
}

formats::Rounding parse_rounding(const std::string& text) {
  if (text == "nearest_even") return formats::Rounding::nearest_even;
  if (text == "toward_zero") return formats::Rounding::toward_zero;
  if (text == "stochastic") return formats::Rounding::stochastic;
  fail("formats", {.argument = "rounding",
                   .expected = "nearest_even, toward_zero or stochastic",
                   .found = "'" + text + "'"});
}

}  // namespace

void bind_formats(nb::module_& m) {
  bind_format_class(m);
  m.def(
      "_formats",
      [] { return std::vector<const Format*>(std::begin(formats::all), std::end(formats::all)); },
      nb::rv_policy::reference);
  m.def("_formats_table", &formats::table_text);
  m.def(
      "_encode",
      [](const Tensor& x, const std::string& format, const std::string& rounding, bool saturate,
         uint64_t seed) {
        return encode(
            x, codec(format),
            {.rounding = parse_rounding(rounding),
             .overflow = saturate ? formats::Overflow::saturate : formats::Overflow::special,
             .seed = seed});
      },
      ReleaseGil());
  m.def(
      "_decode",
      [](const Tensor& codes, const std::string& format) { return decode(codes, codec(format)); },
      ReleaseGil());
}

}  // namespace binade::python
