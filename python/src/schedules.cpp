#include "binade/optim/schedule.h"

#include <nanobind/stl/map.h>

#include "binade/optim/ema.h"
#include "binade/optim/one_cycle.h"
#include "binade/optim/plateau.h"
#include "bindings.h"
#include "scope.h"

// What accompanies an optimizer: learning rates by steps or metrics, and averages of the weights.
namespace binade::python {
namespace {

using namespace optim;

// One of two choices by name.
template <class Value>
Value either(const char* op, const char* argument, const std::string& found,
             const std::pair<const char*, Value>& first,
             const std::pair<const char*, Value>& second) {
  if (found == first.first) return first.second;
  if (found == second.first) return second.second;
  fail(op, {.argument = argument,
            .expected = std::string(first.first) + " or " + second.first,
            .found = "'" + found + "'"});
}

void bind_one_cycle(nb::module_& m) {
  nb::class_<OneCycle>(
      m, "OneCycle",
      "The 1cycle policy: the learning rate rises to max_lr and falls again, while "
      "the momentum does the opposite.")
      .def(
          "__init__",
          [](OneCycle* self, double max_lr, int64_t total_steps, double pct_start,
             const std::string& anneal_strategy, double base_momentum, double max_momentum,
             double div_factor, double final_div_factor, bool three_phase) {
            new (self) OneCycle{.max_lr = max_lr,
                                .total = total_steps,
                                .rising = pct_start,
                                .annealing = either<Annealing>(
                                    "OneCycle", "anneal_strategy", anneal_strategy,
                                    {"cos", Annealing::cosine}, {"linear", Annealing::linear}),
                                .initial_divisor = div_factor,
                                .final_divisor = final_div_factor,
                                .three_phases = three_phase,
                                .base_momentum = base_momentum,
                                .max_momentum = max_momentum};
            self->check();
          },
          "max_lr"_a, "total_steps"_a, "pct_start"_a = 0.3, "anneal_strategy"_a = "cos",
          "base_momentum"_a = 0.85, "max_momentum"_a = 0.95, "div_factor"_a = 25.0,
          "final_div_factor"_a = 1e4, "three_phase"_a = false)
      .def("at", &OneCycle::at, "step"_a, "The rate of a step, counted from 0.")
      .def("momentum_at", &OneCycle::momentum_at, "step"_a, "The momentum of a step.");
}

void bind_plateau(nb::module_& m) {
  using Better = PlateauOptions::Better;
  using Threshold = PlateauOptions::Threshold;
  nb::class_<ReduceOnPlateau>(m, "_ReduceOnPlateau")
      .def(
          "__init__",
          [](ReduceOnPlateau* self, Optimizer& optimizer, const std::string& mode, double factor,
             int64_t patience, double threshold, const std::string& threshold_mode,
             int64_t cooldown, double min_lr, double eps) {
            const char* op = "ReduceOnPlateau";
            new (self) ReduceOnPlateau(
                optimizer, {.better = either<Better>(op, "mode", mode, {"min", Better::smaller},
                                                     {"max", Better::larger}),
                            .factor = factor,
                            .patience = patience,
                            .threshold = threshold,
                            .threshold_kind = either<Threshold>(
                                op, "threshold_mode", threshold_mode, {"rel", Threshold::relative},
                                {"abs", Threshold::absolute}),
                            .cooldown = cooldown,
                            .min_lr = min_lr,
                            .eps = eps});
          },
          nb::keep_alive<1, 2>())
      .def("step", &ReduceOnPlateau::step, "metric"_a)
      .def_prop_ro("best", &ReduceOnPlateau::best)
      .def("state_dict", &ReduceOnPlateau::state)
      .def("load_state_dict", &ReduceOnPlateau::load_state, "state"_a);
}

void bind_ema(nb::module_& m) {
  nb::class_<EMA>(m, "_EMA")
      .def(nb::init<const std::vector<Tensor>&, double>())
      .def(
          "update",
          [](EMA& self, Optimizer* optimizer) {
            optimizer != nullptr ? self.update(*optimizer) : self.update();
          },
          "optimizer"_a.none(), ReleaseGil())
      .def_prop_ro("updates", &EMA::updates)
      .def("of", &EMA::of, "parameter"_a)
      .def(
          "applied", [](EMA& self) { return Scope::of<EMA::Applied>(std::ref(self)); },
          nb::keep_alive<0, 1>())
      .def("state_dict", &EMA::state_dict, ReleaseGil())
      .def("load_state_dict", &EMA::load_state_dict, "state"_a, ReleaseGil());
}

}  // namespace

void bind_schedules(nb::module_& m) {
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
  bind_one_cycle(m);
  bind_plateau(m);
  bind_ema(m);
}

}  // namespace binade::python
