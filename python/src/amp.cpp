#include <nanobind/stl/map.h>

#include <filesystem>

#include "binade/amp/autocast.h"
#include "binade/amp/grad_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/recipe/layer_scales.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/recipe/text.h"
#include "binade/amp/trace.h"
#include "binade/amp/warnings.h"
#include "binade/io/file.h"
#include "bindings.h"
#include "enums.h"
#include "scope.h"

namespace binade::python {
namespace {

using amp::Recipe;

std::string read_recipe_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    fail("Recipe", {.argument = "text",
                    .expected = amp::recipes::names() + " or a file, and fields after it",
                    .found = "'" + path + "'"});
  return io::read_text(path, "recipe", 1 << 20);
}

amp::MatmulPrecision parse_precision(const std::string& text) {
  if (text == "highest") return amp::MatmulPrecision::highest;
  if (text == "high") return amp::MatmulPrecision::high;
  fail("matmul_precision",
       {.argument = "precision", .expected = "highest or high", .found = "'" + text + "'"});
}

void bind_policy(nb::module_& m) {
  nb::class_<amp::Policy>(m, "Policy", "Overrides of the autocast class of ops, by op and module.")
      .def(nb::init<>())
      .def(
          "set",
          [](amp::Policy& self, const std::string& op, const std::string& cast,
             const std::string& module) {
            const auto found = find_op(op);
            if (!found)
              fail("policy", {.argument = "op", .expected = "an op", .found = "'" + op + "'"});
            self.set(*found, parse_cast_class(cast), module);
            return self;
          },
          "op"_a, "cast"_a, "module"_a = "", "Overrides the class of one op.")
      .def(
          "set_module",
          [](amp::Policy& self, const std::string& module, const std::string& cast) {
            self.set_module(module, parse_cast_class(cast));
            return self;
          },
          "module"_a, "cast"_a, "Overrides the class of all ops in a module and those below it.")
      .def("__str__", [](const amp::Policy& self) { return amp::policy_text(self); });
  m.def("_ops", [] {
    std::vector<std::pair<std::string, std::string>> ops;
    for (const OpInfo& one : all_ops())
      ops.emplace_back(std::string(one.name), std::string(name(one.cast)));
    return ops;
  });
}

void bind_autocast(nb::module_& m) {
  m.def(
      "_autocast",
      [](DType dtype, bool enabled, const amp::Policy* policy) {
        amp::AutocastOptions options{.enabled = enabled};
        if (policy != nullptr) options.policy = std::make_shared<const amp::Policy>(*policy);
        return Scope::of<amp::Autocast>(dtype, options);
      },
      "dtype"_a, "enabled"_a, "policy"_a.none());
  m.def(
      "_matmul_precision",
      [](const std::string& precision) {
        return Scope::of<amp::MatmulPrecisionGuard>(parse_precision(precision));
      },
      "precision"_a);
  m.def("is_autocast_enabled", [] { return amp::autocast_state().enabled; });
  m.def("get_autocast_dtype", [] { return amp::autocast_state().dtype; });
  m.def(
      "_explain",
      [](nb::handle program) {
        const std::vector<amp::TracedOp> trace = amp::explain([&] { program(); });
        nb::list ops;
        for (const amp::TracedOp& one : trace) {
          nb::list casts;
          for (const amp::TracedCast& cast : one.casts)
            casts.append(nb::make_tuple(cast.from, cast.to, cast.bytes));
          ops.append(nb::make_tuple(std::string(name(one.op)), one.module, one.inputs, one.compute,
                                    one.outputs, casts, one.backward));
        }
        return nb::make_tuple(ops, amp::trace_text(trace));
      },
      "program"_a);
}

void bind_recipe(nb::module_& m) {
  nb::class_<Recipe>(m, "Recipe",
                     "How linear layers quantize their operands, from its text: a name or a file, "
                     "and fields that differ. str() is the text.")
      .def(
          "__init__",
          [](Recipe* self, const std::string& text) {
            new (self) Recipe(amp::parse_recipe(text, {.read_file = read_recipe_file}));
          },
          "text"_a = "delayed")
      .def_ro("name", &Recipe::name)
      .def("__str__", [](const Recipe& self) { return amp::to_text(self); })
      .def("__repr__",
           [](const Recipe& self) {
             const nb::str text(amp::to_text(self).c_str());
             return "Recipe(" + nb::cast<std::string>(nb::repr(text)) + ")";
           })
      .def(
          "__eq__",
          [](const Recipe& self, nb::handle other) {
            return nb::isinstance<Recipe>(other) && self == nb::cast<const Recipe&>(other);
          },
          "other"_a.none())
      .def("__hash__",
           [](const Recipe& self) { return nb::hash(nb::str(amp::to_text(self).c_str())); });
  m.def("_current_buffer_name", &amp::current_buffer_name, "saved"_a);
  m.def(
      "_quantized_autocast",
      [](bool enabled, const Recipe& recipe) {
        return Scope::of<amp::QuantizedAutocast>(
            amp::RecipeState{.enabled = enabled, .recipe = recipe});
      },
      "enabled"_a, "recipe"_a);
}

void bind_scaler(nb::module_& m) {
  m.def("_pass_warnings", [](bool to_python) {
    if (!to_python) {
      amp::set_warning_function({});
      return;
    }
    amp::set_warning_function([](const std::string& text) {
      const nb::gil_scoped_acquire gil;
      nb::module_::import_("binade.amp").attr("_warning_function")(text);
    });
  });
  nb::class_<amp::StepReport>(m, "StepReport", "The outcome of one optimizer step.")
      .def_prop_ro("applied", &amp::StepReport::applied)
      .def_prop_ro("reason", &amp::StepReport::reason, "Why it was skipped; empty if applied.")
      .def_prop_ro("scale", &amp::StepReport::scale)
      .def_prop_ro("warnings", &amp::StepReport::warnings,
                   "Calls of this iteration that cannot be meant, as texts.")
      .def_prop_ro("bad_parameter",
                   [](const amp::StepReport& self) { return optional_of(self.bad_parameter()); })
      .def("__bool__", &amp::StepReport::applied);
  nb::class_<amp::GradScaler>(m, "_GradScaler")
      .def("__init__",
           [](amp::GradScaler* self, Device device, double init_scale, double growth_factor,
              double backoff_factor, int64_t growth_interval, bool enabled, int64_t hysteresis,
              double minimum_scale, int64_t skip_budget, int64_t retest_after) {
             new (self) amp::GradScaler({.enabled = enabled,
                                         .init_scale = init_scale,
                                         .growth_factor = growth_factor,
                                         .backoff_factor = backoff_factor,
                                         .growth_interval = growth_interval,
                                         .hysteresis = hysteresis,
                                         .minimum_scale = minimum_scale,
                                         .skip_budget = skip_budget,
                                         .retest_after = retest_after,
                                         .device = device});
           })
      .def("scale", &amp::GradScaler::scale, ReleaseGil())
      .def("unscale_", &amp::GradScaler::unscale, ReleaseGil())
      .def(
          "step",
          [](amp::GradScaler& self, amp::Steppable& optimizer,
             const std::optional<Tensor>& factor) {
            return self.step(optimizer, factor.value_or(Tensor()));
          },
          "optimizer"_a, "gradient_factor"_a = nb::none(), ReleaseGil())
      .def("update", nb::overload_cast<>(&amp::GradScaler::update), ReleaseGil())
      .def("update", nb::overload_cast<double>(&amp::GradScaler::update), ReleaseGil())
      .def("is_enabled", &amp::GradScaler::enabled)
      .def("get_scale", &amp::GradScaler::get_scale, ReleaseGil())
      .def("growth_tracker", &amp::GradScaler::growth_tracker)
      .def("state_dict", &amp::GradScaler::state, ReleaseGil())
      .def("load_state_dict", &amp::GradScaler::load_state, ReleaseGil());
}

}  // namespace

void bind_amp(nb::module_& m) {
  bind_policy(m);
  bind_autocast(m);
  bind_recipe(m);
  nb::class_<amp::Steppable>(m, "_Steppable");
  bind_scaler(m);
}

}  // namespace binade::python
