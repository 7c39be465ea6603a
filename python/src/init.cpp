#include "binade/nn/init.h"

#include "binade/base/execution.h"
#include "bindings.h"
#include "scope.h"

// Initial values of parameters; binade.nn.init gives them PyTorch's signatures.
namespace binade::python {
namespace {

namespace init = nn::init;

struct NonlinearityName {
  const char* name;
  init::Nonlinearity value;
};

constexpr NonlinearityName nonlinearity_names[] = {
    {"linear", init::Nonlinearity::linear}, {"sigmoid", init::Nonlinearity::sigmoid},
    {"tanh", init::Nonlinearity::tanh},     {"relu", init::Nonlinearity::relu},
    {"selu", init::Nonlinearity::selu},     {"leaky_relu", init::Nonlinearity::leaky_relu},
};

init::Nonlinearity parse_nonlinearity(const std::string& name) {
  std::string known;
  for (const NonlinearityName& entry : nonlinearity_names) {
    if (name == entry.name) return entry.value;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  fail("init",
       {.argument = "nonlinearity", .expected = "one of " + known, .found = "'" + name + "'"});
}

init::Kaiming kaiming(double slope, const std::string& mode, const std::string& nonlinearity) {
  using Fan = init::Kaiming::Fan;
  if (mode != "fan_in" && mode != "fan_out") {
    fail("init", {.argument = "mode", .expected = "fan_in or fan_out", .found = "'" + mode + "'"});
  }
  return {.slope = slope,
          .fan = mode == "fan_in" ? Fan::in : Fan::out,
          .nonlinearity = parse_nonlinearity(nonlinearity)};
}

// For its lifetime, new modules stay uninitialized; afterwards this thread draws as if none had
// been made.
struct WithoutValues {
  std::shared_ptr<const execution::State> state = execution::capture();
  execution::Scope scope{*state};
  init::SkipInit skip;
};

}  // namespace

void bind_init(nb::module_& m) {
  m.def("_init_restart", &init::restart, "seed"_a);
  m.def("_without_values", [] { return Scope::of<WithoutValues>(); });
  m.def("_init_uniform", &init::uniform_, "x"_a, "low"_a, "high"_a, ReleaseGil());
  m.def("_init_normal", &init::normal_, "x"_a, "mean"_a, "std"_a, ReleaseGil());
  m.def(
      "_init_trunc_normal",
      [](const Tensor& x, double mean, double deviation, double low, double high) {
        init::trunc_normal_(x, {.mean = mean, .deviation = deviation, .low = low, .high = high});
      },
      ReleaseGil());
  m.def("_init_eye", &init::eye_, ReleaseGil());
  m.def("_init_orthogonal", &init::orthogonal_, ReleaseGil());
  m.def("_init_xavier_uniform", &init::xavier_uniform_, ReleaseGil());
  m.def("_init_xavier_normal", &init::xavier_normal_, ReleaseGil());
  m.def("_init_kaiming_uniform", [](const Tensor& x, double slope, const std::string& mode,
                                    const std::string& nonlinearity) {
    init::kaiming_uniform_(x, kaiming(slope, mode, nonlinearity));
  });
  m.def("_init_kaiming_normal", [](const Tensor& x, double slope, const std::string& mode,
                                   const std::string& nonlinearity) {
    init::kaiming_normal_(x, kaiming(slope, mode, nonlinearity));
  });
  m.def("_init_gain", [](const std::string& nonlinearity, double slope) {
    return init::gain(parse_nonlinearity(nonlinearity), slope);
  });
}

}  // namespace binade::python
