#include <nanobind/stl/map.h>
#include "binade/amp/autocast.h"
#include "binade/amp/recipe/state.h"
#include "binade/amp/grad_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/trace.h"
#include "bindings.h"
#include "enums.h"
#include "scope.h"

namespace binade::python {
namespace {

using amp::Recipe;

amp::Fp8Format parse_format(const std::string& text) {
  if (text == "hybrid") return amp::Fp8Format::hybrid;
  if (text == "e4m3") return amp::Fp8Format::e4m3;
  fail("Recipe",
       {.argument = "format", .expected = "hybrid or e4m3", .found = "'" + text + "'"});
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

void bind_fp8(nb::module_& m) {
  nb::class_<Recipe>(m, "_Fp8Recipe")
      .def(nb::init<>())
      .def_prop_rw(
          "scaling", [](const Recipe& self) { return std::string(amp::name(self.scaling)); },
          [](Recipe& self, const std::string& text) {
            self.scaling = amp::parse_fp8_scaling(text);
          })
      .def_prop_rw(
          "format",
          [](const Recipe& self) {
            return self.format == amp::Fp8Format::hybrid ? "hybrid" : "e4m3";
          },
          [](Recipe& self, const std::string& text) { self.format = parse_format(text); })
      .def_rw("history", &Recipe::history)
      .def_rw("most_recent", &Recipe::most_recent)
      .def_rw("margin", &Recipe::margin)
      .def_rw("power_of_two", &Recipe::power_of_two)
      .def_rw("eps", &Recipe::eps)
      .def_rw("forward", &Recipe::forward)
      .def_rw("dgrad", &Recipe::dgrad)
      .def_rw("wgrad", &Recipe::wgrad)
      .def_rw("fast_accumulation", &Recipe::fast_accumulation)
      .def_rw("head", &Recipe::head)
      .def_rw("hidden", &Recipe::hidden)
      .def_rw("skip_first", &Recipe::skip_first)
      .def_rw("skip_last", &Recipe::skip_last)
      .def_rw("exclude", &Recipe::exclude)
      .def("check", &Recipe::check);
  m.def(
      "_fp8_autocast",
      [](bool enabled, const Recipe& recipe) {
        recipe.check();
        return Scope::of<amp::QuantizedAutocast>(amp::RecipeState{.enabled = enabled, .recipe = recipe});
      },
      "enabled"_a, "recipe"_a);
}

void bind_scaler(nb::module_& m) {
  nb::class_<amp::StepReport>(m, "StepReport", "The outcome of one optimizer step.")
      .def_prop_ro("applied", &amp::StepReport::applied)
      .def_prop_ro("reason", &amp::StepReport::reason, "Why it was skipped; empty if applied.")
      .def_prop_ro("scale", &amp::StepReport::scale)
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
  bind_fp8(m);
  nb::class_<amp::Steppable>(m, "_Steppable");
  bind_scaler(m);
}

}  // namespace binade::python
