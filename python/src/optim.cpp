#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include <cmath>

#include "binade/optim/catalog.h"
#include "binade/optim/clip.h"
#include "binade/optim/optimizer.h"
#include "bindings.h"

namespace binade::python {
namespace {

using namespace optim;

// A value as binade.optim gives it.
OptionValue value_of(std::string_view name, nb::handle given) {
  const OtherValue other{nb::cast<std::string>(nb::repr(given))};
  if (nb::isinstance<nb::bool_>(given)) return nb::cast<bool>(given);
  if (nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given)) {
    std::vector<double> numbers;
    for (const nb::handle one : given) {
      double number = NAN;  // of None
      if (!one.is_none() && !nb::try_cast(one, number)) return other;
      numbers.push_back(number);
    }
    return numbers;
  }
  DType dtype{};
  if (name == "moments" && nb::try_cast(given, dtype)) return dtype;
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  double number = 0;
  if (nb::try_cast(given, number)) return number;
  return other;
}

MasterOptions master_options(nb::dict& options) {
  const auto taken = [&](const char* name) { return nb::object(options.attr("pop")(name)); };
  const nb::object given = taken("master_weights"), rounding = taken("stochastic_rounding"),
                   seed = taken("seed");
  const auto refuse = [](const char* name, const char* expected, const nb::object& found) {
    fail("optimizer",
         {.argument = name, .expected = expected, .found = nb::cast<std::string>(nb::repr(found))});
  };
  const bool split = nb::isinstance<nb::str>(given) && nb::cast<std::string>(given) == "split";
  if (!split && !nb::isinstance<nb::bool_>(given))
    refuse("master_weights", "True, False or 'split'", given);
  if (!nb::isinstance<nb::bool_>(rounding))
    refuse("stochastic_rounding", "True or False", rounding);
  uint64_t number = 0;
  if (!nb::try_cast(seed, number)) refuse("seed", "an integer of at least 0", seed);
  return {.masters = split || nb::cast<bool>(given),
          .split_masters = split,
          .stochastic_rounding = nb::cast<bool>(rounding),
          .seed = number};
}

using Groups = std::vector<std::pair<std::vector<Tensor>, nb::dict>>;

std::vector<NamedGroup> named_groups(const Groups& given) {
  std::vector<NamedGroup> groups;
  for (const auto& [parameters, options] : given) {
    auto left = nb::borrow<nb::dict>(options.attr("copy")());
    NamedGroup group{parameters, {}, master_options(left)};
    for (const auto& [key, value] : left) {
      const auto name = nb::cast<std::string>(key);
      group.options.emplace(name, value_of(name, value));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void bind_optimizer_base(nb::module_& m) {
  nb::class_<Optimizer, amp::Steppable>(m, "_Optimizer")
      .def(
          "step", [](Optimizer& self) { self.step(); }, ReleaseGil())
      .def("zero_grad", &Optimizer::zero_grad, ReleaseGil())
      .def("parameters", &Optimizer::parameters)
      .def("group_count", &Optimizer::group_count)
      .def("lr", &Optimizer::lr, "group"_a = 0)
      .def("set_lr", &Optimizer::set_lr, "lr"_a)
      .def("set_group_lr", &Optimizer::set_group_lr, "group"_a, "lr"_a)
      .def("set_momentum", &Optimizer::set_momentum, "momentum"_a)
      .def("steps", &Optimizer::steps, ReleaseGil())
      .def("state_dict", &Optimizer::state_dict, ReleaseGil())
      .def("load_state_dict", &Optimizer::load_state_dict, ReleaseGil())
      .def("master_of", &Optimizer::master_of, "parameter"_a);
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_optimizer_base(m);
  m.def("_make_optimizer", [](const std::string& name, const Groups& groups) {
    return find_optimizer(name).make(named_groups(groups));
  });
  m.def("_make_muon", [](const Groups& matrices, const Groups& others) {
    return make_muon(named_groups(matrices), named_groups(others));
  });
  m.def("_optimizers", [] {
    std::map<std::string, std::vector<std::string>> options;
    for (const Description& one : catalog()) options.emplace(one.name, one.options());
    return options;
  });
  m.def("clip_grad_norm_", &clip_grad_norm, "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0,
        ReleaseGil());
  m.def("clip_grad_value_", &clip_grad_value, "parameters"_a, "clip_value"_a, ReleaseGil());
  m.def("grad_norm", &grad_norm, "parameters"_a, "norm_type"_a = 2.0, ReleaseGil(),
        "The norm of all gradients as one vector.");
}

}  // namespace binade::python
