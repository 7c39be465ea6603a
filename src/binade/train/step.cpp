#include "binade/train/step.h"

#include <cmath>

#include "binade/amp/autocast.h"
#include "binade/autograd/variable.h"
#include "binade/base/random.h"
#include "binade/data/batches.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/create.h"
#include "binade/optim/clip.h"

namespace binade::train {
namespace {

constexpr int64_t skip_budget = 50;

Tensor scalar(double value) { return full({1}, value, DType::f64); }

const Tensor& entry(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end())
    fail("trainer state", {.argument = name, .expected = "an entry of that name", .found = "none"});
  return found->second;
}

// The entries whose names start with `prefix`, without it.
StateDict below(const StateDict& state, const std::string& prefix) {
  StateDict result;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) result[name.substr(prefix.size())] = tensor;
  }
  return result;
}

}  // namespace

Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::Fp8Recipe& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro) {
  const amp::Autocast cast(autocast_type(config), uses_autocast(config));
  const amp::Fp8Autocast fp8(recipe, config.precision == "fp8");
  const data::Batch batch = data::training_batch(tokens, {config.batch, config.context},
                                                 static_cast<uint64_t>(config.seed), step, micro);
  const Device device = model.head_weight().device();
  return model.loss(to(batch.tokens, device), to(batch.targets, device));
}

Trainer::Trainer(const Config& config)
    : config_(config),
      schedule_(schedule(config)),
      recipe_(fp8_recipe(config)),
      model_(std::make_unique<nn::LanguageModel>(model_config(config), placement(config))),
      optimizer_(std::make_unique<optim::AdamW>(optimizer_groups(config, *model_))),
      scaler_(scaler_options(config)) {
  amp::set_matmul_precision(config.precision == "tf32" ? amp::MatmulPrecision::high
                                                       : amp::MatmulPrecision::highest);
}

double Trainer::accumulate_gradients(const data::Tokens& tokens) {
  double sum = 0;
  // One guard around all micro-batches: the casts of the weights serve them all.
  const amp::Autocast cast(autocast_type(config_), uses_autocast(config_));
  for (int64_t micro = 0; micro < config_.accumulate; ++micro) {
    Tensor loss = micro_loss(*model_, config_, recipe_, tokens, steps_, micro);
    sum += loss.item();
    const amp::Autocast off(autocast_type(config_), false);
    if (config_.accumulate > 1) loss = loss * (1.0 / static_cast<double>(config_.accumulate));
    scaler_.scale(loss).backward();
  }
  return sum / static_cast<double>(config_.accumulate);
}

void Trainer::update(StepResult& result) {
  scaler_.unscale(*optimizer_);
  const std::vector<Tensor> parameters = optimizer_->parameters();
  const Tensor norm = config_.clip > 0 ? optim::clip_grad_norm(parameters, config_.clip)
                                       : optim::grad_norm(parameters);
  result.gradient_norm = norm.item();
  if (scaler_.enabled() || std::isfinite(result.gradient_norm)) {
    const amp::StepReport report = scaler_.step(*optimizer_);
    scaler_.update();
    result.applied = report.applied;
    result.reason = report.reason;
  } else {
    result.applied = false;
    result.reason = "a gradient is not finite";
  }
  skipped_ += result.applied ? 0 : 1;
  skipped_in_a_row_ = result.applied ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ >= skip_budget) {
    fail("train",
         {.argument = "step " + std::to_string(result.step),
          .expected = "finite gradients",
          .found = std::to_string(skipped_in_a_row_) + " skipped steps in a row",
          .hint = "lower --lr, or try another --precision; the last checkpoint is untouched"});
  }
}

StepResult Trainer::step(const data::Tokens& tokens) {
  StepResult result;
  random::begin_step(static_cast<uint64_t>(config_.seed), static_cast<uint64_t>(steps_));
  model_->train();
  optimizer_->zero_grad();
  result.lr = schedule_.at(optimizer_->steps());
  optimizer_->set_lr(result.lr);
  result.scale = scaler_.get_scale();
  result.loss = accumulate_gradients(tokens);
  result.step = steps_ + 1;
  update(result);
  ++steps_;
  return result;
}

double Trainer::evaluate(const data::Tokens& tokens) {
  const NoGrad no_grad;
  const amp::Autocast cast(autocast_type(config_), uses_autocast(config_));
  model_->eval();
  double sum = 0;
  for (int64_t i = 0; i < config_.eval_batches; ++i) {
    const data::Batch batch =
        data::validation_batch(tokens, {config_.batch, config_.context}, i, config_.eval_batches);
    sum += model_->loss(batch.tokens, batch.targets).item();
  }
  model_->train();
  return sum / static_cast<double>(config_.eval_batches);
}

StateDict Trainer::state_dict() {
  StateDict state;
  const StateDict whole = model_->state_dict();  // settles FP8 histories
  for (const auto& [name, tensor] : model_->named_buffers())
    state["buffer." + name] = whole.at(name);
  for (const auto& [name, tensor] : optimizer_->state_dict()) state["optimizer." + name] = tensor;
  for (const auto& [name, value] : scaler_.state()) state["scaler." + name] = scalar(value);
  state["steps"] = scalar(static_cast<double>(steps_));
  state["skipped"] = scalar(static_cast<double>(skipped_));
  state["skipped_in_a_row"] = scalar(static_cast<double>(skipped_in_a_row_));
  return state;
}

void Trainer::load_state_dict(const StateDict& state) {
  model_->load_state_dict(below(state, "buffer."), false);
  optimizer_->load_state_dict(below(state, "optimizer."));
  amp::ScalerState scaler;
  for (const auto& [name, tensor] : below(state, "scaler.")) scaler[name] = tensor.item();
  scaler_.load_state(scaler);
  steps_ = static_cast<int64_t>(entry(state, "steps").item());
  skipped_ = static_cast<int64_t>(entry(state, "skipped").item());
  skipped_in_a_row_ = static_cast<int64_t>(entry(state, "skipped_in_a_row").item());
}

}  // namespace binade::train
