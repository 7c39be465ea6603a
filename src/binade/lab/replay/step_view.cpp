#include "binade/lab/replay/step_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/lab/replay/capture.h"
#include "binade/lab/replay/replayer.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/train/config/component_options.h"
#include "binade/train/init_from.h"
#include "binade/train/micro_batch.h"

namespace binade::lab {
namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

void check_options(const RecordedRun& run, const ViewOptions& options) {
  const train::Config& config = run.settings_of(options.step);
  if (options.step < 1 || options.step > run.config.train.steps)
    fail("at", {.argument = "--step",
                .expected = fmt::format("1 to {}, the steps of {}", run.config.train.steps,
                                        run.folder.string()),
                .found = std::to_string(options.step)});
  if (options.micro < -1 || options.micro >= config.train.accumulate)
    fail("at", {.argument = "--micro",
                .expected = fmt::format("0 to {}", config.train.accumulate - 1),
                .found = std::to_string(options.micro)});
}

Tensor on_host(const Tensor& x) {
  const NoGrad no_grad;
  const Tensor host = to(x.detach(), Device::cpu());
  return x.device() == Device::cpu() ? clone(host) : host;
}

// Runs one micro-batch of a step, of the trainer's state of now, in f32.
class F32Shadow {
 public:
  explicit F32Shadow(train::Trainer& trainer) : config_(trainer.config()) {
    config_.precision.matmul = train::Precision::fp32;
    config_.precision.params = train::ParameterStorage::autocast;
    config_.precision.residual = {};
    config_.precision.overrides.clear();
    model_ = train::make_model(config_, train::placement(config_));
    // A base in blocks is no part of the state below.
    if (config_.lora.base.in_blocks())
      train::load_initial_weights(*model_, config_.model.init_from);
    model_->load_state_dict(trainer.model().state_dict(), false);
    model_->train();
  }

  void run(const data::Tokens& tokens, int64_t step, int64_t micro, double scale) {
    random::begin_step(static_cast<uint64_t>(config_.train.seed), static_cast<uint64_t>(step));
    const Tensor loss = train::micro_loss(*model_, config_, {}, tokens, step, micro);
    const amp::Autocast off(amp::disabled_autocast());
    (loss * (scale / static_cast<double>(config_.train.accumulate))).backward();
  }
  nn::LanguageModel& model() { return *model_; }

 private:
  train::Config config_;
  std::unique_ptr<nn::LanguageModel> model_;
};

// The logits of a micro-batch, [batch, tokens, vocab], which a step computes in chunks and drops.
Tensor logits_of(nn::LanguageModel& model, const train::Config& config,
                 const amp::RecipeState& recipes, const data::Tokens& tokens, int64_t step,
                 int64_t micro) {
  const NoGrad no_grad;
  const amp::Autocast cast(train::autocast_state(config));
  const amp::QuantizedAutocast quantized(recipes);
  const data::Batch batch = data::training_batch(
      tokens, {config.train.batch, config.model.context, config.train.accumulate},
      static_cast<uint64_t>(config.train.seed), step, micro);
  random::begin_step(static_cast<uint64_t>(config.train.seed), static_cast<uint64_t>(step));
  random::begin_micro_batch(micro);
  return on_host(model.logits(to(batch.tokens, model.head_weight().device())));
}

// The loss scale of the step, and everything that the optimizer keeps.
double loss_scale(const StateDict& trainer) {
  const auto found = trainer.find("scaler.scale");
  return found == trainer.end() ? 1 : found->second.item();
}

// Parameters' gradients and the state after a step, under the names of a view.
Named state_after(train::Trainer& trainer) {
  Named named;
  std::map<size_t, std::string> name_of;
  const std::vector<Tensor> updated = trainer.optimizer().parameters();
  for (const auto& [name, parameter] : trainer.model().named_parameters()) {
    named.emplace_back("weight/" + name, parameter);
    for (size_t i = 0; i < updated.size(); ++i) {
      if (!updated[i].same_as(parameter)) continue;
      name_of[i] = name;
      if (parameter.grad().defined()) named.emplace_back("gradient/" + name, parameter.grad());
    }
  }
  constexpr std::string_view of_optimizer = "optimizer.", of_buffers = "buffer.";
  for (const auto& [name, tensor] : trainer.state_dict()) {
    if (name.starts_with(of_buffers)) {
      named.emplace_back("scale/" + name.substr(of_buffers.size()), tensor);
    } else if (name == "scaler.scale") {
      named.emplace_back("scale/loss", tensor);
    } else if (name.starts_with(of_optimizer) && !name.ends_with("steps")) {
      const std::string entry = name.substr(of_optimizer.size());
      named.emplace_back(entry.substr(entry.find('.') + 1) + "/" + name_of[std::stoul(entry)],
                         tensor);
    }
  }
  return named;
}

// How a step that nothing observes computes the result of an op otherwise, with the same bits.
std::string unobserved_kernel(const CapturedTensor& tensor, const train::Trainer& trainer) {
  if (tensor.op == Op::rope) return "in place";
  const bool fuses =
      trainer.recipes().enabled && !backend::capabilities(trainer.device()).is_host_readable;
  const bool is_producer = tensor.op == Op::rms_norm || tensor.op == Op::layer_norm ||
                           tensor.op == Op::swiglu || tensor.op == Op::gelu;
  return fuses && is_producer ? "by a kernel that also quantizes it" : "";
}

class Viewer {
 public:
  Viewer(const RecordedRun& run, const ViewOptions& options)
      : run_(run), options_(options), replayer_(run) {}

  StepView view() {
    view_.step = options_.step;
    view_.micro = options_.micro;
    view_.notes = run_.notes;
    if (options_.step > run_.steps)
      view_.notes.push_back(
          fmt::format("the run has recorded {} steps: this one would follow", run_.steps));
    replayer_.go_to(options_.step - 1);
    view_.origin = replayer_.origin();
    const Replayer::State before = replayer_.save();
    const train::StepResult result = replayer_.step();
    view_.loss = result.loss;
    view_.gradient_norm = result.gradient_norm;
    view_.applied = result.applied;
    view_.reason = result.reason;
    const train::StateHash hash = replayer_.trainer().hash();
    for (const auto& [part, member] : train::state_parts)
      view_.hash.emplace_back(part, hash.*member);
    replayer_.restore(before);
    if (options_.shadow && options_.micro >= 0) run_shadow(loss_scale(before.trainer));
    if (wants("logits") && options_.micro >= 0) add_logits(before);
    observe();
    view_.observed_difference = train::differing_parts(replayer_.trainer().hash(), hash);
    view_.difference = replayer_.difference();
    view_.compared = replayer_.compared();
    check_patterns();
    return std::move(view_);
  }

 private:
  bool wants(const std::string& name) const { return matches_any(options_.tensors, name); }

  void run_shadow(double scale) {
    shadow_.emplace(replayer_.trainer());
    Capture capture(options_.micro, options_.tensors);
    {
      const autograd::OpObserverScope observed(&capture);
      shadow_->run(replayer_.tokens(), options_.step - 1, options_.micro, scale);
    }
    for (const CapturedTensor& one : capture.tensors()) shadows_[one.name] = one.value;
    if (replayer_.trainer().config().train.accumulate > 1) return;
    for (const auto& [name, parameter] : shadow_->model().named_parameters()) {
      const NoGrad no_grad;
      if (parameter.grad().defined() && wants("gradient/" + name))
        shadows_["gradient/" + name] = on_host(parameter.grad() * (1 / scale));
    }
  }

  void add_logits(const Replayer::State& before) {
    train::Trainer& trainer = replayer_.trainer();
    Tensor in_f32;
    if (shadow_) {
      train::Config config = trainer.config();
      config.precision.matmul = train::Precision::fp32;
      config.precision.overrides.clear();
      in_f32 = logits_of(shadow_->model(), config, {}, replayer_.tokens(), options_.step - 1,
                         options_.micro);
    }
    trainer.model().train();
    const Tensor logits = logits_of(trainer.model(), trainer.config(), trainer.recipes(),
                                    replayer_.tokens(), options_.step - 1, options_.micro);
    view_.tensors.push_back({"logits", logits, summarize(logits, in_f32), "in chunks"});
    replayer_.restore(before);  // histories of scales have seen this forward
  }

  void observe() {
    Capture capture(options_.micro, options_.tensors);
    {
      const autograd::OpObserverScope observed(&capture);
      replayer_.step();
    }
    for (const CapturedTensor& one : capture.tensors()) {
      const auto found = shadows_.find(one.name);
      view_.tensors.push_back(
          {one.name, one.value,
           summarize(one.value, found == shadows_.end() ? Tensor() : found->second),
           unobserved_kernel(one, replayer_.trainer())});
    }
    for (const auto& [name, tensor] : state_after(replayer_.trainer())) {
      if (!wants(name)) continue;
      const Tensor value = on_host(tensor);
      const auto found = shadows_.find(name);
      view_.tensors.push_back(
          {name, value, summarize(value, found == shadows_.end() ? Tensor() : found->second)});
    }
  }

  void check_patterns() const {
    for (const std::string& pattern : options_.tensors) {
      const bool found = std::ranges::any_of(view_.tensors, [&pattern](const ViewedTensor& one) {
        return matches_any({pattern}, one.name);
      });
      if (!found)
        fail("at", {.argument = "--tensor",
                    .expected = "a pattern that names a tensor, such as 'blocks.0.*', "
                                "'gradient/*' or logits",
                    .found = "'" + pattern + "'",
                    .hint = pattern == "logits" ? "logits are shown of one micro-batch: --micro 0"
                                                : "without --tensor all names are listed"});
    }
  }

  const RecordedRun& run_;
  const ViewOptions& options_;
  Replayer replayer_;
  std::optional<F32Shadow> shadow_;
  std::map<std::string, Tensor> shadows_;
  StepView view_;
};

}  // namespace

StepView view_step(const RecordedRun& run, const ViewOptions& options) {
  check_options(run, options);
  return Viewer(run, options).view();
}

}  // namespace binade::lab
