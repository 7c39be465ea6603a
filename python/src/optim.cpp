#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>

#include "binade/optim/adafactor.h"
#include "binade/optim/adagrad.h"
#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
#include "binade/optim/lion.h"
#include "binade/optim/muon.h"
#include "binade/optim/rmsprop.h"
#include "binade/optim/sgd.h"
#include "bindings.h"

namespace binade::python {
namespace {

using namespace optim;

// The options of one group by name; binade/optim.py gives all of them.
class GroupOptions {
 public:
  explicit GroupOptions(nb::dict options) : options_(std::move(options)) {}

  template <class T>
  T get(const char* name) const {
    try {
      return nb::cast<T>(options_[name]);
    } catch (const std::bad_cast&) {
      refuse(name, expected_text<T>());
    }
  }
  double number(const char* name) const { return get<double>(name); }
  bool flag(const char* name) const { return get<bool>(name); }
  MasterOptions master() const {
    const nb::object given = options_["master_weights"];
    const bool split = nb::isinstance<nb::str>(given) && nb::cast<std::string>(given) == "split";
    if (!split && !nb::isinstance<nb::bool_>(given))
      refuse("master_weights", "True, False or 'split'");
    return {.masters = split || nb::cast<bool>(given),
            .split_masters = split,
            .stochastic_rounding = flag("stochastic_rounding"),
            .seed = get<uint64_t>("seed")};
  }

 private:
  template <class T>
  static const char* expected_text() {
    if (std::is_same_v<T, bool>) return "True or False";
    if (std::is_same_v<T, DType>) return "a dtype";
    if (std::is_same_v<T, std::string>) return "a string";
    if (std::is_integral_v<T>)
      return std::is_signed_v<T> ? "an integer" : "an integer of at least 0";
    return std::is_floating_point_v<T> ? "a number" : "a tuple of numbers";
  }

  [[noreturn]] void refuse(const char* name, const char* expected) const {
    fail("optimizer", {.argument = name,
                       .expected = expected,
                       .found = nb::cast<std::string>(nb::repr(options_[name]))});
  }

  nb::dict options_;
};

SgdOptions sgd_options(const GroupOptions& o) {
  return {.lr = o.number("lr"),
          .momentum = o.number("momentum"),
          .dampening = o.number("dampening"),
          .weight_decay = o.number("weight_decay"),
          .nesterov = o.flag("nesterov"),
          .master = o.master()};
}

AdamOptions adam_options(const GroupOptions& o) {
  const auto betas = o.get<std::pair<double, double>>("betas");
  return {.lr = o.number("lr"),
          .beta1 = betas.first,
          .beta2 = betas.second,
          .eps = o.number("eps"),
          .weight_decay = o.number("weight_decay"),
          .moments = o.get<DType>("moments"),
          .amsgrad = o.flag("amsgrad"),
          .master = o.master()};
}

RmspropOptions rmsprop_options(const GroupOptions& o) {
  return {.lr = o.number("lr"),
          .alpha = o.number("alpha"),
          .eps = o.number("eps"),
          .weight_decay = o.number("weight_decay"),
          .momentum = o.number("momentum"),
          .centered = o.flag("centered"),
          .master = o.master()};
}

AdagradOptions adagrad_options(const GroupOptions& o) {
  return {.lr = o.number("lr"),
          .lr_decay = o.number("lr_decay"),
          .weight_decay = o.number("weight_decay"),
          .initial_sum = o.number("initial_accumulator_value"),
          .eps = o.number("eps"),
          .master = o.master()};
}

LionOptions lion_options(const GroupOptions& o) {
  const auto betas = o.get<std::pair<double, double>>("betas");
  return {.lr = o.number("lr"),
          .beta1 = betas.first,
          .beta2 = betas.second,
          .weight_decay = o.number("weight_decay"),
          .momentum = o.get<DType>("moments"),
          .master = o.master()};
}

AdafactorOptions adafactor_options(const GroupOptions& o) {
  const auto eps = o.get<std::pair<std::optional<double>, double>>("eps");
  return {.lr = o.number("lr"),
          .beta2_decay = o.number("beta2_decay"),
          .eps1 = eps.first,
          .eps2 = eps.second,
          .d = o.number("d"),
          .weight_decay = o.number("weight_decay"),
          .master = o.master()};
}

MuonScale parse_muon_scale(const std::string& name) {
  if (name == "original") return MuonScale::original;
  if (name == "match_rms_adamw") return MuonScale::match_rms_adamw;
  fail("Muon", {.argument = "adjust_lr_fn",
                .expected = "original or match_rms_adamw",
                .found = "'" + name + "'"});
}

MuonOptions muon_options(const GroupOptions& o) {
  return {.lr = o.number("lr"),
          .momentum = o.number("momentum"),
          .nesterov = o.flag("nesterov"),
          .weight_decay = o.number("weight_decay"),
          .scale = parse_muon_scale(o.get<std::string>("adjust_lr_fn")),
          .coefficients = o.get<std::array<double, 3>>("ns_coefficients"),
          .steps = o.get<int>("ns_steps"),
          .eps = o.number("eps"),
          .master = o.master()};
}

using Groups = std::vector<std::pair<std::vector<Tensor>, nb::dict>>;

template <class Group, auto options>
std::vector<Group> groups_of(const Groups& given) {
  std::vector<Group> groups;
  for (const auto& [parameters, named] : given)
    groups.push_back({parameters, options(GroupOptions(named))});
  return groups;
}

// A class whose constructor takes [(parameters, options)].
template <class Kind, class Group, auto options>
void bind_kind(nb::module_& m, const char* name) {
  nb::class_<Kind, Optimizer>(m, name).def("__init__", [](Kind* self, const Groups& groups) {
    new (self) Kind(groups_of<Group, options>(groups));
  });
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
  bind_kind<SGD, SgdGroup, sgd_options>(m, "_SGD");
  bind_kind<Adam, AdamGroup, adam_options>(m, "_Adam");
  bind_kind<AdamW, AdamGroup, adam_options>(m, "_AdamW");
  bind_kind<RMSprop, RmspropGroup, rmsprop_options>(m, "_RMSprop");
  bind_kind<Adagrad, AdagradGroup, adagrad_options>(m, "_Adagrad");
  bind_kind<Lion, LionGroup, lion_options>(m, "_Lion");
  bind_kind<Adafactor, AdafactorGroup, adafactor_options>(m, "_Adafactor");
  nb::class_<Muon, Optimizer>(m, "_Muon")
      .def("__init__", [](Muon* self, const Groups& matrices, const Groups& others) {
        new (self) Muon(groups_of<MuonGroup, muon_options>(matrices),
                        groups_of<AdamGroup, adam_options>(others));
      });
  m.def("clip_grad_norm_", &clip_grad_norm, "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0,
        ReleaseGil());
  m.def("clip_grad_value_", &clip_grad_value, "parameters"_a, "clip_value"_a, ReleaseGil());
  m.def("grad_norm", &grad_norm, "parameters"_a, "norm_type"_a = 2.0, ReleaseGil(),
        "The norm of all gradients as one vector.");
}

}  // namespace binade::python
