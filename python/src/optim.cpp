#include <nanobind/stl/map.h>

#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
#include "binade/optim/schedule.h"
#include "binade/optim/sgd.h"
#include "bindings.h"

namespace binade::python {
namespace {

using namespace optim;

MasterOptions master_options(bool master_weights, bool stochastic_rounding, uint64_t seed) {
  return {.masters = master_weights, .stochastic_rounding = stochastic_rounding, .seed = seed};
}

void bind_optimizer(nb::module_& m) {
  nb::class_<Optimizer, amp::Steppable>(m, "_Optimizer")
      .def(
          "step", [](Optimizer& self) { self.step(); }, ReleaseGil())
      .def("zero_grad", &Optimizer::zero_grad, ReleaseGil())
      .def("parameters", &Optimizer::parameters)
      .def("group_count", &Optimizer::group_count)
      .def("lr", &Optimizer::lr, "group"_a = 0)
      .def("set_lr", &Optimizer::set_lr, "lr"_a)
      .def("set_group_lr", &Optimizer::set_group_lr, "group"_a, "lr"_a)
      .def("steps", &Optimizer::steps, ReleaseGil())
      .def("state_dict", &Optimizer::state_dict, ReleaseGil())
      .def("load_state_dict", &Optimizer::load_state_dict, ReleaseGil())
      .def("master_of", &Optimizer::master_of, "parameter"_a);
}

void bind_adam(nb::module_& m) {
  nb::class_<AdamGroup>(m, "_AdamGroup")
      .def("__init__", [](AdamGroup* self, const std::vector<Tensor>& parameters, double lr,
                          std::pair<double, double> betas, double eps, double weight_decay,
                          DType moments, bool master_weights, bool stochastic_rounding,
                          uint64_t seed) {
        new (self) AdamGroup{parameters,
                             {.lr = lr,
                              .beta1 = betas.first,
                              .beta2 = betas.second,
                              .eps = eps,
                              .weight_decay = weight_decay,
                              .moments = moments,
                              .master = master_options(master_weights, stochastic_rounding, seed)}};
      });
  nb::class_<Adam, Optimizer>(m, "_Adam").def(nb::init<const std::vector<AdamGroup>&>());
  nb::class_<AdamW, Adam>(m, "_AdamW").def(nb::init<const std::vector<AdamGroup>&>());
}

void bind_sgd(nb::module_& m) {
  nb::class_<SgdGroup>(m, "_SgdGroup")
      .def("__init__", [](SgdGroup* self, const std::vector<Tensor>& parameters, double lr,
                          double momentum, double dampening, double weight_decay, bool nesterov,
                          bool master_weights, bool stochastic_rounding, uint64_t seed) {
        new (self) SgdGroup{parameters,
                            {.lr = lr,
                             .momentum = momentum,
                             .dampening = dampening,
                             .weight_decay = weight_decay,
                             .nesterov = nesterov,
                             .master = master_options(master_weights, stochastic_rounding, seed)}};
      });
  nb::class_<SGD, Optimizer>(m, "_SGD").def(nb::init<const std::vector<SgdGroup>&>());
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_optimizer(m);
  bind_adam(m);
  bind_sgd(m);
  m.def("clip_grad_norm_", &clip_grad_norm, "parameters"_a, "max_norm"_a, "norm_type"_a = 2.0,
        ReleaseGil());
  m.def("clip_grad_value_", &clip_grad_value, "parameters"_a, "clip_value"_a, ReleaseGil());
  m.def("grad_norm", &grad_norm, "parameters"_a, "norm_type"_a = 2.0, ReleaseGil(),
        "The norm of all gradients as one vector.");
  nb::class_<Schedule>(m, "Schedule", "The learning rate as a function of applied steps.")
      .def(
          "__init__",
          [](Schedule* self, const std::string& kind, double peak, int64_t total, int64_t warmup,
             double final_ratio, int64_t cooldown) {
            new (self) Schedule{.kind = parse_schedule(kind),
                                .peak = peak,
                                .warmup = warmup,
                                .total = total,
                                .final_ratio = final_ratio,
                                .cooldown = cooldown};
            self->check();
          },
          "kind"_a, "peak"_a, "total"_a = 0, "warmup"_a = 0, "final_ratio"_a = 0.1,
          "cooldown"_a = 0)
      .def("at", &Schedule::at, "step"_a, "The rate of a step, counted from 0.");
}

}  // namespace binade::python
