// optim.safetensors: what PyTorch's optimizers, clips and the schedules' formulas give, step by
// step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/base/json.h"
#include "binade/io/safetensors.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"
#include "binade/ops/shape.h"
#include "binade/optim/adam.h"
#include "binade/optim/clip.h"
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

AdamOptions adam_options(const json::Value& params, double default_decay) {
  const std::vector<json::Value>& betas = params.at("betas").array();
  return {.lr = params.at("lr").number(),
          .beta1 = betas[0].number(),
          .beta2 = betas[1].number(),
          .eps = params.at("eps").number(),
          .weight_decay = number_or(params, "weight_decay", default_decay)};
}

std::unique_ptr<Optimizer> optimizer_of(const json::Value& item,
                                        const std::vector<Tensor>& parameters) {
  const std::string kind = item.at("optimizer").string();
  const json::Value& params = item.at("params");
  if (kind == "Adam") return std::make_unique<Adam>(parameters, adam_options(params, 0));
  if (kind == "AdamW") return std::make_unique<AdamW>(parameters, adam_options(params, 0.01));
  const json::Value* nesterov = params.find("nesterov");
  return std::make_unique<SGD>(parameters,
                               SgdOptions{.lr = params.at("lr").number(),
                                          .momentum = number_or(params, "momentum", 0),
                                          .dampening = number_or(params, "dampening", 0),
                                          .weight_decay = number_or(params, "weight_decay", 0),
                                          .nesterov = nesterov != nullptr && nesterov->boolean()});
}

TEST(GoldenOptim, EveryStepOfEveryOptimizer) {
  const json::Document document = described("optimizers");
  EXPECT_EQ(document.root().array().size(), 10u);
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
