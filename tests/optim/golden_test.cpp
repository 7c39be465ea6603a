// optim.safetensors: what PyTorch's optimizers, clips and the schedules' formulas give, step by
// step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/base/json.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "binade/optim/catalog.h"
#include "binade/optim/clip.h"
#include "binade/optim/ema.h"
#include "binade/optim/muon.h"
#include "binade/optim/one_cycle.h"
#include "binade/optim/plateau.h"
#include "binade/optim/schedule.h"
#include "binade/optim/sgd.h"
#include "io/temporary_folder.h"

namespace binade::optim {
namespace {

const io::SafetensorsFile& file() {
  static const io::SafetensorsFile opened(testing::golden("optim.safetensors"));
  return opened;
}

json::Document described(const char* name) {
  return json::parse(file().metadata().at(name), {"optim", name});
}

double number_or(const json::Value& params, const char* name, double otherwise) {
  const json::Value* value = params.find(name);
  return value == nullptr ? otherwise : value->number();
}

bool flag(const json::Value& params, const char* name) {
  const json::Value* value = params.find(name);
  return value != nullptr && value->boolean();
}

NamedOptions named_options(const json::Value& params) {
  constexpr std::string_view flags[] = {"amsgrad", "centered", "nesterov",
                                        "decoupled_weight_decay"};
  NamedOptions options;
  for (const auto& [name, value] : params.object()) {
    if (value.is_array()) {
      std::vector<double> numbers;
      for (const json::Value& one : value.array()) numbers.push_back(one.number());
      options.emplace(name, numbers);
    } else if (std::find(std::begin(flags), std::end(flags), name) != std::end(flags)) {
      options.emplace(name, value.boolean());
    } else {
      options.emplace(name, value.number());
    }
  }
  return options;
}

std::unique_ptr<Optimizer> optimizer_of(const json::Value& item,
                                        const std::vector<Tensor>& parameters) {
  return find_optimizer(item.at("optimizer").string())
      .make({{parameters, named_options(item.at("params"))}});
}

TEST(GoldenOptim, EveryStepOfEveryOptimizer) {
  const json::Document document = described("optimizers");
  EXPECT_EQ(document.root().array().size(), 25u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    std::vector<Tensor> parameters;
    std::vector<std::vector<double>> reach;  // the largest number each element has been made of
    for (const char* start : {"start0", "start1"}) {
      parameters.push_back(file().load(start).set_requires_grad());
      reach.push_back(to_vector(parameters.back()));
    }
    const auto optimizer = optimizer_of(item, parameters);
    for (int64_t step = 0; step < 10; ++step) {
      for (size_t p = 0; p < 2; ++p)
        parameters[p].set_grad(
            contiguous(select(file().load("grad" + std::to_string(p)), 0, step)));
      optimizer->step();
      for (size_t p = 0; p < 2; ++p) {
        const std::vector<double> expected =
            to_vector(select(file().load(name + "/param" + std::to_string(p)), 0, step));
        const std::vector<double> found = to_vector(parameters[p]);
        for (size_t i = 0; i < found.size(); ++i) {
          reach[p][i] = std::max(std::fabs(reach[p][i]), std::fabs(expected[i]));
          // A few roundings a step, of numbers no larger than those seen so far.
          EXPECT_NEAR(found[i], expected[i],
                      4 * (static_cast<double>(step) + 1) * epsilon(DType::f32) * reach[p][i])
              << name << " step " << step << " parameter " << p << " element " << i;
        }
      }
    }
    EXPECT_EQ(optimizer->steps(), 10);
  }
}

MuonOptions muon_options(const json::Value& params, DType dtype) {
  const bool matches = params.find("adjust_lr_fn") != nullptr;
  const json::Value* nesterov = params.find("nesterov");
  return {.lr = params.at("lr").number(),
          .momentum = number_or(params, "momentum", 0.95),
          .nesterov = nesterov == nullptr || nesterov->boolean(),
          .weight_decay = number_or(params, "weight_decay", 0.1),
          .scale = matches ? MuonScale::match_rms_adamw : MuonScale::original,
          .steps = static_cast<int>(number_or(params, "ns_steps", 5)),
          .dtype = dtype};
}

// The largest difference of any element after any of the ten steps, in units of one step's largest
// possible change of an element.
double muon_difference(const json::Value& item, DType dtype, const char* expected) {
  const std::string name = item.at("case").string();
  const MuonOptions options = muon_options(item.at("params"), dtype);
  double worst = 0;
  for (const char* index : {"0", "1"}) {
    const Tensor weight = file().load(std::string("muon/start") + index).set_requires_grad();
    Muon muon({weight}, options);
    const Tensor gradients = file().load(std::string("muon/grad") + index);
    const Tensor trace = file().load(name + "/" + expected + index);
    const double longest = static_cast<double>(std::max(weight.size(0), weight.size(1)));
    const double ratio = options.scale == MuonScale::match_rms_adamw ? 0.2 * std::sqrt(longest)
                                                                     : std::sqrt(12.0 / 5);
    for (int64_t step = 0; step < 10; ++step) {
      weight.set_grad(contiguous(select(gradients, 0, step)));
      muon.step();
      const auto found = to_vector(weight), values = to_vector(select(trace, 0, step));
      for (size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::fabs(found[i] - values[i]) / (options.lr * ratio));
    }
  }
  return worst;
}

TEST(GoldenOptim, Muon) {
  const json::Document document = described("muon");
  EXPECT_EQ(document.root().array().size(), 3u);
  for (const json::Value& item : document.root().array()) {
    SCOPED_TRACE(item.at("case").string());
    // f32 against float64: the iteration magnifies a rounding by at most its slope at zero, 3.4 per
    // step of it; ten updates add up.
    EXPECT_LT(muon_difference(item, DType::f32, "exact"),
              10 * std::pow(3.4445, 5) * epsilon(DType::f32));
    // bf16 against PyTorch's, which rounds at other points.
    EXPECT_LT(muon_difference(item, DType::bf16, "param"), 10 * 4 * epsilon(DType::bf16));
  }
}

TEST(GoldenOptim, OneCycle) {
  const json::Document document = described("one_cycles");
  EXPECT_EQ(document.root().array().size(), 3u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    const json::Value& params = item.at("params");
    const OneCycle cycle{
        .max_lr = params.at("max_lr").number(),
        .total = params.at("total_steps").integer(0, 100),
        .rising = number_or(params, "pct_start", 0.3),
        .annealing = params.find("anneal_strategy") ? Annealing::linear : Annealing::cosine,
        .initial_divisor = number_or(params, "div_factor", 25),
        .final_divisor = number_or(params, "final_div_factor", 1e4),
        .three_phases = flag(params, "three_phase"),
        .base_momentum = number_or(params, "base_momentum", 0.85),
        .max_momentum = number_or(params, "max_momentum", 0.95)};
    cycle.check();
    const auto rates = to_vector(file().load(name + "/lr")),
               momenta = to_vector(file().load(name + "/momentum"));
    ASSERT_EQ(static_cast<int64_t>(rates.size()), cycle.total);
    for (size_t step = 0; step < rates.size(); ++step) {
      const auto at = static_cast<int64_t>(step);
      EXPECT_NEAR(cycle.at(at), rates[step], 1e-12 * cycle.max_lr) << name << " step " << step;
      EXPECT_NEAR(cycle.momentum_at(at), momenta[step], 1e-12) << name << " step " << step;
    }
    EXPECT_EQ(cycle.at(cycle.total + 7), cycle.at(cycle.total - 1));
  }
}

TEST(GoldenOptim, ReduceOnPlateau) {
  const json::Document document = described("plateaus");
  EXPECT_EQ(document.root().array().size(), 4u);
  const auto metric = to_vector(file().load("plateau/metric"));
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    const json::Value& params = item.at("params");
    using Better = PlateauOptions::Better;
    using Threshold = PlateauOptions::Threshold;
    const PlateauOptions options{
        .better = params.find("mode") ? Better::larger : Better::smaller,
        .factor = number_or(params, "factor", 0.1),
        .patience = static_cast<int64_t>(number_or(params, "patience", 10)),
        .threshold = number_or(params, "threshold", 1e-4),
        .threshold_kind = params.find("threshold_mode") ? Threshold::absolute : Threshold::relative,
        .cooldown = static_cast<int64_t>(number_or(params, "cooldown", 0)),
        .min_lr = number_or(params, "min_lr", 0),
        .eps = number_or(params, "eps", 1e-8)};
    const auto rates = to_vector(file().load(name + "/lr"));
    SGD sgd({zeros({1}).set_requires_grad()}, {.lr = 0.5});
    auto plateau = std::make_unique<ReduceOnPlateau>(sgd, options);
    for (size_t i = 0; i < metric.size(); ++i) {
      plateau->step(metric[i]);
      EXPECT_NEAR(sgd.lr(), rates[i], 1e-12) << name << " step " << i;
      if (i % 7 != 0) continue;  // continues from its state
      const auto state = plateau->state();
      plateau = std::make_unique<ReduceOnPlateau>(sgd, options);
      plateau->load_state(state);
    }
    EXPECT_LT(rates.back(), 0.5);
  }
}

TEST(GoldenOptim, Ema) {
  const Tensor values = file().load("ema/values"), averages = file().load("ema/averages");
  const Tensor weight = zeros({6}).set_requires_grad();
  EMA ema({weight}, 0.9);
  for (int64_t step = 0; step < 10; ++step) {
    {
      const NoGrad no_grad;
      copy_(weight, select(values, 0, step));
    }
    ema.update();
    const auto found = to_vector(ema.of(weight)), expected = to_vector(select(averages, 0, step));
    for (size_t i = 0; i < found.size(); ++i)  // numbers of about 1, two roundings per step
      EXPECT_NEAR(found[i], expected[i], 10 * epsilon(DType::f32) * 4);
  }
}

std::vector<Tensor> parameters_with_gradients() {
  std::vector<Tensor> parameters;
  for (const char* name : {"clip/grad0", "clip/grad1", "clip/grad2"}) {
    const Tensor gradient = file().load(name);
    Tensor parameter = zeros(gradient.shape());
    parameter.set_requires_grad();
    parameter.set_grad(clone(gradient));
    parameters.push_back(parameter);
  }
  return parameters;
}

void expect_near(const Tensor& found, const Tensor& expected, double relative,
                 const std::string& what) {
  const std::vector<double> x = to_vector(found), y = to_vector(expected);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], y[i], relative * std::fabs(y[i])) << what << " element " << i;
}

TEST(GoldenOptim, Clips) {
  const json::Document document = described("clips");
  EXPECT_EQ(document.root().array().size(), 7u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    const std::vector<Tensor> parameters = parameters_with_gradients();
    if (const json::Value* limit = item.find("clip_value")) {
      clip_grad_value(parameters, limit->number());
    } else {
      const json::Value& order = item.at("norm_type");
      const double p = order.describe() == "\"inf\"" ? INFINITY
                       : order.describe()[0] == '"'  ? std::stod(order.string())
                                                     : order.number();
      const Tensor total = clip_grad_norm(parameters, item.at("max_norm").number(), p);
      expect_near(total, file().load(name + "/total"), 4 * epsilon(DType::f32), name);
    }
    for (size_t i = 0; i < 3; ++i) {
      expect_near(parameters[i].grad(), file().load(name + "/grad" + std::to_string(i)),
                  8 * epsilon(DType::f32), name);
    }
  }
}

TEST(GoldenOptim, Schedules) {
  const json::Document document = described("schedules");
  EXPECT_EQ(document.root().array().size(), 6u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string(), kind = item.at("schedule").string();
    const json::Value& params = item.at("params");
    const Schedule schedule{.kind = parse_schedule(kind.substr(0, kind.find('_'))),
                            .peak = params.at("lr").number(),
                            .warmup = params.at("warmup").integer(0, 100),
                            .total = params.at("total").integer(0, 100),
                            .final_ratio = params.at("final").number() / params.at("lr").number()};
    schedule.check();
    const std::vector<double> expected = to_vector(file().load(name + "/lr"));
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(schedule.at(static_cast<int64_t>(step)), expected[step], 1e-12 * schedule.peak)
          << name << " step " << step;
    }
  }
}

}  // namespace
}  // namespace binade::optim
