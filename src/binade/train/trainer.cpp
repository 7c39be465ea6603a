#include "binade/train/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/amp/diverged_error.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/determinism.h"
#include "binade/base/json.h"
#include "binade/base/random.h"
#include "binade/data/batches.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/shape/shape.h"
#include "binade/ranks/host_facts.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/eval_mode.h"
#include "binade/train/micro_batch.h"
#include "binade/train/run/check.h"

namespace binade::train {
namespace {

// Skipped steps in a row that end a run. A loss scale that was halved so often has crossed all of
// f16's 40 binades, so something else is wrong.
constexpr int64_t skip_budget = 50;
// Steps a GPU may be ahead of the host.
constexpr size_t steps_ahead = 2;
static_assert(steps_ahead <= backend::RatesAfterSkips::capacity);

// A choice for a module that does not exist would have no effect.
void check_module(const std::string& module, nn::Module& model, const std::string& where) {
  bool found = module.empty();
  std::string known;
  for (const auto& [path, child] : model.named_modules()) {
    found |= path == module || path.starts_with(module + ".");
    if (!path.empty() && path.find('.') == std::string::npos)
      known += (known.empty() ? "" : ", ") + path;
  }
  if (!found)
    fail("config", {.argument = where,
                    .expected = "a module of the model: " + known + " or one below",
                    .found = json::in_quotes(module)});
}

void check_modules(const Config& config, nn::Module& model) {
  for (const PrecisionOverride& entry : config.precision.overrides)
    check_module(entry.module, model, "[[precision.override]] module");
  if (config.precision.plan.empty()) return;
  for (const Promotion& one : read_precision_plan(config.precision.plan).layers)
    check_module(one.module, model, config.precision.plan);
}

Config on_device_of_rank(Config config, const ranks::Communicator& ranks) {
  const Device given = device_of(config), own = ranks::device_of_rank(ranks, given);
  if (own != given) config.train.device = own;
  return config;
}

// Chooses the activations that blocks keep, unless the configuration has them or it is a forecast.
Arrangement arranged(const Config& config, const std::shared_ptr<ranks::Communicator>& ranks) {
  const bool chooses = !config.train.activations && !device_of(config).is_meta();
  return chooses ? arrange(config, ranks)
                 : Arrangement{config.train.activations.value_or(nn::Activations())};
}

std::unique_ptr<nn::LanguageModel> checked_model(Config config, const Arrangement& arrangement) {
  config.train.activations = arrangement.activations;
  auto model = make_model(config, placement(config));
  check_modules(config, *model);
  return model;
}

ranks::Partition checked_partition(const Config& config, const nn::LanguageModel& model,
                                   const ranks::Place& data) {
  check_rank_device(device_of(config), data.size);
  check_ranks(config, data.size);
  return partition_of(config, model, data.size);
}

// Whether steps on packed documents read their offsets, which change with every step, on the device
// alone. A layer that a user gives another type may not.
bool packs_on_device(const Config& config, nn::LanguageModel& model) {
  const amp::AutocastState state = autocast_state(config);
  return state.enabled && config.precision.overrides.empty() && config.precision.plan.empty() &&
         model.attends_documents(state.dtype);
}

GraphMode graph_mode(const Config& config, nn::LanguageModel& model,
                     const ranks::Sharded& sharded) {
  const bool varies = (config.data.pack && !packs_on_device(config, model)) ||
                      sharded.releases_weights() || config.run.audit > 0;
  return varies ? GraphMode::off : config.train.graph;
}

std::unique_ptr<StepAudit> new_audit(const Config& config, Device device, int rank) {
  if (config.run.audit == 0 || device.is_meta()) return nullptr;
  return std::make_unique<StepAudit>(config, device, rank);
}

// The sign of a NaN says nothing, and "-nan" looks as if it did.
double without_nan_sign(double x) { return std::isnan(x) ? NAN : x; }

// All ranks choose as rank 0 does.
std::function<bool(bool)> rank_0_decides(const std::shared_ptr<ranks::Communicator>& ranks) {
  return [ranks](bool own) { return ranks->broadcast_text("choice", own ? "yes" : "") == "yes"; };
}

}  // namespace

Trainer::Trainer(const Config& config, std::shared_ptr<ranks::Communicator> ranks)
    : config_(on_device_of_rank(config, *ranks)),
      arrangement_(arranged(config_, ranks)),
      device_(device_of(config_)),
      schedule_(schedule(config)),
      autocast_(autocast_state(config)),
      recipes_(recipe_state(config)),
      model_(checked_model(config_, arrangement_)),
      ranks_(std::move(ranks)),
      partition_(checked_partition(config_, *model_, ranks_->place(ranks::Group::data))),
      optimizer_(new_optimizer()),
      sharded_(new_sharded()),
      scaler_(scaler_options(config_)),
      audit_(new_audit(config_, device_, ranks_->rank())),
      graph_(graph_mode(config_, *model_, *sharded_), device_, rank_0_decides(ranks_)),
      clock_(ranks_) {}

std::unique_ptr<optim::Optimizer> Trainer::new_optimizer() {
  return make_optimizer(config_, *model_, partition_.parts(ranks_->place(ranks::Group::data).rank));
}

std::unique_ptr<ranks::Sharded> Trainer::new_sharded() {
  return std::make_unique<ranks::Sharded>(
      *model_, *optimizer_, ranks_, partition_,
      ranks::ShardedOptions{.micro_batches = config_.train.accumulate,
                            .stage = static_cast<int>(config_.ranks.stage),
                            .reduce_dtype = config_.ranks.reduce_dtype,
                            .order = config_.ranks.order});
}

void Trainer::announce(const Command& command) {
  const std::string order = to_text(command);
  ranks_->set_phase(order);
  if (ranks_->rank() == 0) ranks_->broadcast_text("order", order);
}

data::Loader::Options Trainer::loader_options() const {
  const ranks::Place data = ranks_->place(ranks::Group::data);
  return {.shape = {config_.train.batch, config_.model.context},
          .accumulate = config_.train.accumulate,
          .first = data.rank,
          .stride = data.size,
          .seed = static_cast<uint64_t>(config_.train.seed),
          .step = steps_};
}

std::vector<Tensor> Trainer::backward(const data::Batch& host) {
  const data::Batch batch = on_device(host, device_);
  const auto [loss, preferences] = batch_loss(*model_, config_, batch);
  const amp::Autocast off(amp::disabled_autocast());
  const double fraction = 1.0 / static_cast<double>(config_.train.accumulate);
  scaler_.scale(config_.train.accumulate > 1 ? loss * fraction : loss).backward();
  std::vector<Tensor> scalars = {loss.detach()};
  scalars.insert(scalars.end(), preferences.begin(), preferences.end());
  return scalars;
}

std::vector<Tensor> Trainer::accumulate_gradients(BatchOf batch_of) {
  std::vector<Tensor> losses;
  // One guard for all micro-batches, so that they share the casts of the weights.
  const amp::Autocast cast(autocast_);
  const amp::QuantizedAutocast quantized(recipes_);
  sharded_->accumulate([&](int64_t micro) {
    const std::vector<Tensor> scalars = backward(batch_of(micro));
    losses.insert(losses.end(), scalars.begin(), scalars.end());
  });
  return losses;
}

void Trainer::gather_weights() {
  announce({Order::weights});
  sharded_->gather_weights(ranks::Units::Where::first_rank);
}

void Trainer::hold_weights() { sharded_->gather_weights(ranks::Units::Where::all_ranks); }

std::vector<ranks::RankTime> Trainer::rank_times() {
  announce({Order::times});
  return clock_.gather();
}

Trainer::PendingStep Trainer::run_step(BatchOf batch_of) {
  clock_.begin();
  const ranks::RankTime& time = clock_.time();
  const ranks::HostFacts all =
      ranks::exchange(*ranks_, {own_stop_signal_, time.seconds, time.waited});
  stop_signal_ = static_cast<int>(all.stop);
  waiting_ = all.waiting();
  PendingStep step;
  if (graph_.replays_next()) {
    step = launch_graph(batch_of);
  } else {
    graph_.run([&] { step = launch(batch_of); });
  }
  clock_.end();
  return step;
}

void Trainer::apply(const optim::Clip& clip, PendingStep& step) {
  step.gradient_norm = backend::AsyncScalar(clip.norm);
  if (scaler_.enabled()) {
    step.report = scaler_.step(*optimizer_, clip.factor);
    scaler_.update();
  } else {
    step.found_inf = backend::AsyncScalar(clip.found_inf);
    optimizer_->step({.gradient_factor = clip.factor, .skip = clip.found_inf});
  }
}

void Trainer::start_step(const data::Tokens& tokens) {
  start_on([&](int64_t micro) {
    return data::training_batch(
        tokens, {config_.train.batch, config_.model.context, config_.train.accumulate},
        static_cast<uint64_t>(config_.train.seed), steps_, micro);
  });
}

void Trainer::start_step(data::Loader& loader) {
  start_on([&](int64_t) { return loader.next(); });  // one of this rank's micro-batches
}

void Trainer::start_step(std::span<const data::Batch> batches) {
  if (std::ssize(batches) != own_micro_batches())
    fail("train", {.argument = "batches",
                   .expected = std::to_string(own_micro_batches()) + ", one per micro-batch",
                   .found = std::to_string(batches.size())});
  start_on([&](int64_t micro) { return batches[sharded_->own_index(micro)]; });
}

size_t Trainer::max_pending() const {
  return backend::capabilities(device_).is_host_readable ? 0 : steps_ahead;
}

void Trainer::set_learning_rate() {
  const int64_t applied = steps_ - skipped_;
  std::vector<double> rates;
  for (size_t i = 0; i <= pending_.size(); ++i)
    rates.push_back(schedule_.at(applied - static_cast<int64_t>(i)));
  optimizer_->set_lr_after(applied, rates);
}

void Trainer::start_on(BatchOf batch_of) {
  read_results(max_pending());
  const char* observed = autograd::op_observer() == nullptr ? "" : " observed";
  announce({Order::step, std::to_string(steps_ + 1) + observed});
  random::begin_step(static_cast<uint64_t>(config_.train.seed), static_cast<uint64_t>(steps_));
  model_->train();
  set_learning_rate();
  std::optional<StepAudit::Scope> audit;
  if (audit_ != nullptr) audit.emplace(*audit_, steps_ + 1);
  PendingStep step = run_step([&](int64_t micro) {
    data::Batch batch = batch_of(micro);
    batches_ += hash_of(batch, steps_, micro);
    return batch;
  });
  step.step = ++steps_;
  pending_.push_back(std::move(step));
}

Trainer::PendingStep Trainer::launch(BatchOf batch_of) {
  const backend::AnyOrder any_order(config_.train.nondeterministic);
  PendingStep step;
  optimizer_->zero_grad();
  const std::vector<Tensor> losses = accumulate_gradients(batch_of);
  scaler_.unscale(*optimizer_);
  amp::GradientCheck check;
  if (scaler_.enabled()) check = scaler_.check_of(*optimizer_);
  const ranks::Sharded::Agreed agreed =
      sharded_->agree(config_.train.clip, losses, scaler_.enabled() ? &check : nullptr);
  step.loss = backend::AsyncScalar(agreed.loss);
  for (const Tensor& one : agreed.others) step.preferences.emplace_back(one);
  apply(agreed.clip, step);
  sharded_->gather_parameters(agreed.clip.found_inf);
  return step;
}

Trainer::PendingStep Trainer::launch_graph(BatchOf batch_of) {
  for (const int64_t micro : sharded_->micro_batches())
    graph_inputs_.set(sharded_->own_index(micro), batch_of(micro), *model_, device_);
  if (graph_.captured()) {
    clock_.note_replay();
  } else {
    const optim::Optimizer::Capture capture(*optimizer_);
    const auto work = [&] {
      captured_ = launch([&](int64_t micro) { return graph_inputs_[sharded_->own_index(micro)]; });
    };
    clock_.capture([&] { graph_.capture(work); });
  }
  optimizer_->prepare_replay();
  graph_.replay();
  sharded_->watch_replay();
  scaler_.note_run();
  return captured_.replayed();
}

Trainer::PendingStep Trainer::PendingStep::replayed() const {
  PendingStep result{step, loss.replayed(), gradient_norm.replayed(), found_inf.replayed(),
                     report.replayed()};
  for (const backend::AsyncScalar& one : preferences) result.preferences.push_back(one.replayed());
  return result;
}

std::vector<StepResult> Trainer::finished() {
  read_results(max_pending());
  return std::exchange(results_, {});
}

std::vector<StepResult> Trainer::finish_all() {
  read_results(0);
  return std::exchange(results_, {});
}

void Trainer::read_results(size_t left) {
  while (pending_.size() > left) {
    const PendingStep oldest = std::move(pending_.front());
    pending_.pop_front();
    results_.push_back(read(oldest));
  }
}

std::string Trainer::reason_of(const amp::StepReport& report) const {
  const Tensor bad = report.bad_parameter();
  for (const auto& [name, parameter] : model_->named_parameters()) {
    if (bad.defined() && parameter.same_as(bad))
      return fmt::format("the gradient of {} is not finite at loss scale {:g}", name,
                         report.scale());
  }
  return report.reason();
}

StepResult Trainer::read(const PendingStep& step) {
  StepResult result{.step = step.step};
  result.lr = schedule_.at(result.step - 1 - skipped_);
  result.loss = without_nan_sign(step.loss.get());
  result.gradient_norm = without_nan_sign(step.gradient_norm.get());
  result.scale = step.report.scale();
  result.applied =
      step.report.applied() && !(step.found_inf.defined() && step.found_inf.get() != 0);
  if (!result.applied)
    result.reason = scaler_.enabled() ? reason_of(step.report) : "a gradient is not finite";
  std::vector<double> preferences;
  for (const backend::AsyncScalar& one : step.preferences) preferences.push_back(one.get());
  if (!preferences.empty()) result.preferences = preferences_of(preferences);
  skipped_ += result.applied ? 0 : 1;
  result.skipped = skipped_;
  skipped_in_a_row_.note(result.applied);
  if (skipped_in_a_row_.length() >= skip_budget) {
    throw amp::DivergedError(
        "train",
        {.argument = "step " + std::to_string(result.step),
         .expected = "finite gradients",
         .found = std::to_string(skipped_in_a_row_.length()) + " skipped steps in a row",
         .hint = "lower --lr, or try another --precision; the last checkpoint is untouched"});
  }
  return result;
}

StepResult Trainer::step(const data::Tokens& tokens) {
  start_step(tokens);
  return finish_all().back();
}

StepResult Trainer::step(data::Loader& loader) {
  start_step(loader);
  return finish_all().back();
}

void Trainer::set_recipe(const std::string& module, const amp::Recipe& recipe,
                         const Amaxes& amaxes) {
  check_module(module, *model_, "a module with its own recipe");
  announce({Order::recipe, to_text(RecipeOrder{module, recipe, amaxes})});
  recipes_.overrides[module] = recipe;
  restart_scales(*model_, module, recipe, amaxes);
  graph_.reset();
}

Validation Trainer::evaluate(const data::Tokens& tokens) {
  announce({Order::evaluate});
  const NoGrad no_grad;
  const EvalMode eval_mode(*model_);
  const int64_t count = config_.run.eval_batches;
  const size_t each = config_.objective.has_pairs() ? 1 + preference_numbers.size() : 1;
  const auto scalars_of = [&](int64_t i) {
    const data::Batch batch = data::validation_batch(
        tokens, {config_.train.batch, config_.model.context}, i, config_.run.eval_batches);
    auto [loss, scalars] = batch_loss(*model_, config_, on_device(batch, device_));
    if (scalars.empty()) return loss;
    scalars.insert(scalars.begin(), loss);
    return stack(scalars, 0);
  };
  std::vector<double> scalars;
  graph_.run_between([&] {
    const amp::Autocast cast(autocast_);
    scalars = sharded_->run_forwards(count, scalars_of, static_cast<int64_t>(each));
  });
  std::vector<double> means(each);
  for (size_t i = 0; i < scalars.size(); ++i) means[i % each] += scalars[i];
  for (double& mean : means) mean = without_nan_sign(mean / static_cast<double>(count));
  Validation result{.loss = means[0]};
  if (each > 1) result.preferences = preferences_of(std::span(means).subspan(1));
  return result;
}

}  // namespace binade::train
