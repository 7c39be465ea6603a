#include "binade/train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/amp/diverged_error.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/determinism.h"
#include "binade/backend/transfer.h"
#include "binade/base/json.h"
#include "binade/base/random.h"
#include "binade/data/batches.h"
#include "binade/io/lora.h"
#include "binade/io/safetensors.h"
#include "binade/ops/attention/attention.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/optim/clip.h"
#include "binade/ranks/host_facts.h"
#include "binade/train/check_run.h"
#include "binade/train/config/precision_plan.h"
#include "binade/train/eval_mode.h"
#include "binade/train/init_from.h"

namespace binade::train {
namespace {

// Skipped steps in a row that end a run. A loss scale that was halved so often has crossed all of
// f16's 40 binades, so something else is wrong.
constexpr int64_t skip_budget = 50;
// Steps a GPU may be ahead of the host.
constexpr size_t steps_ahead = 2;
static_assert(steps_ahead <= backend::RatesAfterSkips::capacity);

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

Config on_device_of_rank(Config config, const ranks::Communicator* ranks) {
  if (ranks != nullptr) config.train.device = ranks::device_of_rank(*ranks, device_of(config));
  return config;
}

// Chooses the activations that blocks keep, unless the configuration has them or it is a forecast.
Arrangement arranged(const Config& config, ranks::Communicator* ranks) {
  const bool chooses = !config.train.activations && !device_of(config).is_meta();
  return chooses ? arrange(config, ranks)
                 : Arrangement{config.train.activations.value_or(nn::Activations())};
}

Config with_activations(Config config, const nn::Activations& activations) {
  config.train.activations = activations;
  return config;
}

// Whether steps on packed documents read their offsets, which change with every step, on the device
// alone. A layer that a user gives another type may not.
bool packs_on_device(const Config& config, nn::LanguageModel& model) {
  const amp::AutocastState state = autocast_state(config);
  return state.enabled && config.precision.overrides.empty() && config.precision.plan.empty() &&
         model.attends_documents(state.dtype);
}

// The memory of shared weights comes and goes.
GraphMode graph_mode(const Config& config, nn::LanguageModel& model, bool has_ranks) {
  const bool varies = (config.data.pack && !packs_on_device(config, model)) ||
                      (has_ranks && config.ranks.stage == 3);
  return varies ? GraphMode::off : config.train.graph;
}

// All ranks choose as rank 0 does. Empty: there are no others.
std::function<bool(bool)> rank_0_decides(const std::shared_ptr<ranks::Communicator>& ranks) {
  if (ranks == nullptr) return {};
  return [ranks](bool own) { return ranks->broadcast_text("choice", own ? "yes" : "") == "yes"; };
}

data::Batch on_device(const data::Batch& batch, Device device) {
  return {.tokens = to(batch.tokens, device),
          .targets = to(batch.targets, device),
          .weight = batch.weight.defined() ? to(batch.weight, device) : Tensor(),
          .documents = batch.documents,
          .document_bounds = batch.document_bounds};
}

// Ops that draw random numbers take streams by micro-batch, whatever rank runs it: 4096 of each.
void begin_micro_batch(int64_t micro) {
  random::context().next_stream = static_cast<uint32_t>(micro % 4096) * 4096;
}

Tensor batch_loss(nn::LanguageModel& model, const data::Batch& batch) {
  const Tensor loss =
      model.loss(batch.tokens, batch.targets, {}, {batch.documents, batch.document_bounds});
  if (!batch.weight.defined()) return loss;
  const amp::Autocast off(amp::disabled_autocast());
  return loss * batch.weight;
}

}  // namespace

Tensor micro_loss(nn::LanguageModel& model, const Config& config, const amp::RecipeState& recipe,
                  const data::Tokens& tokens, int64_t step, int64_t micro) {
  const amp::Autocast cast(autocast_state(config));
  const amp::QuantizedAutocast quantized(recipe);
  const data::Batch batch = data::training_batch(
      tokens, {config.train.batch, config.model.context, config.train.accumulate},
      static_cast<uint64_t>(config.train.seed), step, micro);
  begin_micro_batch(micro);
  return batch_loss(model, on_device(batch, model.head_weight().device()));
}

Trainer::Trainer(const Config& config, std::shared_ptr<ranks::Communicator> ranks)
    : config_(on_device_of_rank(config, ranks.get())),
      arrangement_(arranged(config_, ranks.get())),
      device_(device_of(config_)),
      schedule_(schedule(config)),
      autocast_(autocast_state(config)),
      recipes_(recipe_state(config)),
      model_(make_model(with_activations(config_, arrangement_.activations), placement(config_))),
      ranks_(std::move(ranks)),
      optimizer_(new_optimizer()),
      scaler_(scaler_options(config_)),
      graph_(graph_mode(config_, *model_, ranks_ != nullptr), device_, rank_0_decides(ranks_)) {
  check_modules(config, *model_);
  make_sums();
}

std::unique_ptr<optim::Optimizer> Trainer::new_optimizer() {
  if (ranks_ == nullptr) return make_optimizer(config_, *model_);
  check_rank_device(device_);
  check_ranks(config_, ranks_->size());
  partition_ = partition_of(config_, *model_, ranks_->size());
  return make_optimizer(config_, *model_, partition_->parts(ranks_->rank()));
}

void Trainer::make_sums() {
  if (ranks_ == nullptr) {
    leaf_sum_ = std::make_unique<LeafSum>(optimizer_->parameters(), config_.ranks.reduce_dtype);
    return;
  }
  sharded_ = std::make_unique<ranks::Sharded>(
      *model_, *optimizer_, ranks_, *partition_,
      ranks::ShardedOptions{.micro_batches = config_.train.accumulate,
                            .stage = static_cast<int>(config_.ranks.stage),
                            .reduce_dtype = config_.ranks.reduce_dtype,
                            .order = config_.ranks.order});
}

void Trainer::announce(const Command& command) {
  if (ranks_ == nullptr) return;
  const std::string order = to_text(command);
  ranks_->set_phase(order);
  if (ranks_->rank() == 0) ranks_->broadcast_text("order", order);
}

int64_t Trainer::own_micro_batches() const {
  return sharded_ == nullptr ? config_.train.accumulate : std::ssize(sharded_->micro_batches());
}

void Trainer::init_from(const std::filesystem::path& given) {
  announce({Order::init, given.string()});
  hold_weights();
  load_initial_weights(*model_, given);
  // Master weights are copies of the parameters. Those of 16-bit parameters, which were rounded
  // when they were loaded, are loaded again in f32.
  sharded_.reset();
  leaf_sum_.reset();
  optimizer_ = new_optimizer();
  if (config_.precision.params != ParameterStorage::autocast && config_.lora.rank == 0) {
    nn::LanguageModel exact(model_->config());
    load_initial_weights(exact, given);
    const auto from = exact.parameters(), to = model_->parameters();
    const NoGrad no_grad;
    for (size_t i = 0; i < to.size(); ++i) {
      if (!to[i].requires_grad()) continue;
      optimizer_->set_master(to[i], from[i]);
    }
  }
  make_sums();  // stage 3 shards the weights
  graph_.reset();
}

void Trainer::load_adapter(const std::filesystem::path& folder) {
  announce({Order::adapter, folder.string()});
  hold_weights();
  io::load_adapter_tensors(*model_, io::load_safetensors(folder / "adapter_model.safetensors"));
  if (sharded_ != nullptr) sharded_->keep_shards();
}

Tensor Trainer::backward(const data::Batch& host, int64_t micro) {
  begin_micro_batch(micro);
  const data::Batch batch = on_device(host, device_);
  const Tensor loss = batch_loss(*model_, batch);
  const amp::Autocast off(amp::disabled_autocast());
  const double fraction = 1.0 / static_cast<double>(config_.train.accumulate);
  scaler_.scale(config_.train.accumulate > 1 ? loss * fraction : loss).backward();
  return loss.detach();
}

Tensor Trainer::accumulate_gradients(BatchOf batch_of) {
  const double fraction = 1.0 / static_cast<double>(config_.train.accumulate);
  const Tensor mean = zeros({}, DType::f64, device_);
  // One guard for all micro-batches, so that they share the casts of the weights.
  const amp::Autocast cast(autocast_);
  const amp::QuantizedAutocast quantized(recipes_);
  leaf_sum_->run(config_.train.accumulate, [&](int64_t micro) {
    const Tensor loss = backward(batch_of(micro), micro);
    const amp::Autocast off(amp::disabled_autocast());
    add_(mean, loss, fraction);
  });
  return mean;
}

void Trainer::gather_weights() {
  if (sharded_ == nullptr) return;
  announce({Order::weights});
  sharded_->gather_weights(ranks::Units::Where::first_rank);
}

void Trainer::hold_weights() {
  if (sharded_ != nullptr) sharded_->gather_weights(ranks::Units::Where::all_ranks);
}

std::vector<RankTime> Trainer::rank_times() {
  if (ranks_ == nullptr) return {};
  announce({Order::times});
  std::vector<RankTime> all(static_cast<size_t>(ranks_->size()));
  ranks_->all_gather("times", std::as_bytes(std::span(&rank_time_, 1)),
                     std::as_writable_bytes(std::span(all)),
                     std::vector<int64_t>(all.size(), sizeof(RankTime)));
  return all;
}

void Trainer::launch_on_ranks(BatchOf batch_of, PendingStep& step) {
  std::vector<Tensor> losses;
  {
    const amp::Autocast cast(autocast_);
    const amp::QuantizedAutocast quantized(recipes_);
    sharded_->accumulate(
        [&](int64_t micro) { losses.push_back(backward(batch_of(micro), micro)); });
  }
  scaler_.unscale(*optimizer_);
  amp::GradientCheck check;
  if (scaler_.enabled()) check = scaler_.check_of(*optimizer_);
  const ranks::Sharded::Agreed agreed =
      sharded_->agree(config_.train.clip, losses, scaler_.enabled() ? &check : nullptr);
  step.loss = backend::AsyncScalar(agreed.loss);
  apply(agreed.clip, step);
  sharded_->gather_parameters(agreed.clip.found_inf);
}

Trainer::PendingStep Trainer::run_step(BatchOf batch_of) {
  PendingStep step;
  if (graph_.replays_next()) {
    step = launch_graph(batch_of);
  } else {
    graph_.run([&] { step = launch(batch_of); });
  }
  return step;
}

Trainer::PendingStep Trainer::run_step_on_ranks(BatchOf batch_of) {
  const auto begin = std::chrono::steady_clock::now();
  const ranks::Traffic before = ranks_->traffic();
  const ranks::HostFacts all =
      ranks::exchange(*ranks_, {own_stop_signal_, rank_time_.seconds, rank_time_.waited});
  PendingStep step = run_step(batch_of);
  stop_signal_ = static_cast<int>(all.stop);
  waiting_ = all.seconds > 0 ? all.waited / all.seconds : 0;
  const ranks::Traffic& after = ranks_->traffic();
  rank_time_.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rank_time_.waited += after.waited - before.waited;
  rank_time_.sent += static_cast<double>(after.bytes_sent - before.bytes_sent) + replayed_bytes_;
  replayed_bytes_ = 0;
  return step;
}

void Trainer::update(PendingStep& step) {
  scaler_.unscale(*optimizer_);
  apply(optim::clip(optimizer_->parameters(), config_.train.clip), step);
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
  const int64_t stride = ranks_ == nullptr ? 1 : ranks_->size();
  start_on([&](int64_t micro) { return batches[static_cast<size_t>(micro / stride)]; });
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
  PendingStep step = ranks_ == nullptr ? run_step(batch_of) : run_step_on_ranks(batch_of);
  step.step = ++steps_;
  pending_.push_back(std::move(step));
}

Trainer::PendingStep Trainer::launch(BatchOf batch_of) {
  const backend::AnyOrder any_order(config_.train.nondeterministic);
  PendingStep step;
  optimizer_->zero_grad();
  if (sharded_ != nullptr) {
    launch_on_ranks(batch_of, step);
    return step;
  }
  step.loss = backend::AsyncScalar(accumulate_gradients(batch_of));
  update(step);
  return step;
}

Trainer::PendingStep Trainer::launch_graph(BatchOf batch_of) {
  const int64_t stride = ranks_ == nullptr ? 1 : ranks_->size();
  for (int64_t i = 0; i < own_micro_batches(); ++i) {
    const data::Batch batch = batch_of(i * stride + (ranks_ == nullptr ? 0 : ranks_->rank()));
    Tensor bounds;
    if (!batch.documents.empty()) {
      model_->check_documents(batch.documents, batch.tokens.shape());
      bounds = document_bounds(batch.documents);
    }
    if (i == static_cast<int64_t>(graph_inputs_.size())) {
      const auto buffer_for = [&](const Tensor& x) {
        return Tensor::empty(x.shape(), x.dtype(), device_);
      };
      graph_inputs_.push_back(
          {.tokens = buffer_for(batch.tokens),
           .targets = buffer_for(batch.targets),
           .weight = batch.weight.defined() ? buffer_for(batch.weight) : Tensor(),
           .document_bounds = bounds.defined() ? buffer_for(bounds) : Tensor()});
    }
    const data::Batch& input = graph_inputs_[static_cast<size_t>(i)];
    if (bounds.defined() != input.document_bounds.defined())
      fail("train", {.argument = "documents",
                     .expected = "in all batches or in none, as the step was captured",
                     .found = bounds.defined() ? "some" : "none"});
    backend::transfer(batch.tokens, input.tokens);
    backend::transfer(batch.targets, input.targets);
    if (batch.weight.defined()) backend::transfer(batch.weight, input.weight);
    if (bounds.defined()) backend::transfer(bounds, input.document_bounds);
  }
  const int64_t sent = ranks_ == nullptr ? 0 : ranks_->traffic().bytes_sent;
  if (graph_.captured()) {
    replayed_bytes_ = captured_bytes_;
  } else {
    const optim::Optimizer::Capture capture(*optimizer_);
    graph_.capture([&] {
      captured_ =
          launch([&](int64_t micro) { return graph_inputs_[static_cast<size_t>(micro / stride)]; });
    });
    if (ranks_ != nullptr)
      captured_bytes_ = static_cast<double>(ranks_->traffic().bytes_sent - sent);
  }
  optimizer_->prepare_replay();
  graph_.replay();
  if (ranks_ != nullptr) ranks::on_device(ranks_, device_)->watch_replay();
  scaler_.note_run();
  return captured_.replayed();
}

Trainer::PendingStep Trainer::PendingStep::replayed() const {
  return {step, loss.replayed(), gradient_norm.replayed(), found_inf.replayed(), report.replayed()};
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

StepResult Trainer::read(const PendingStep& step) {
  StepResult result{.step = step.step};
  result.lr = schedule_.at(result.step - 1 - skipped_);
  result.loss = step.loss.get();
  result.gradient_norm = step.gradient_norm.get();
  result.scale = step.report.scale();
  result.applied =
      step.report.applied() && !(step.found_inf.defined() && step.found_inf.get() != 0);
  if (!result.applied)
    result.reason = scaler_.enabled() ? step.report.reason() : "a gradient is not finite";
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

double Trainer::evaluate(const data::Tokens& tokens) {
  announce({Order::evaluate});
  const NoGrad no_grad;
  const EvalMode eval_mode(*model_);
  const auto loss_of = [&](int64_t i) {
    const data::Batch batch = data::validation_batch(
        tokens, {config_.train.batch, config_.model.context}, i, config_.run.eval_batches);
    return batch_loss(*model_, on_device(batch, device_));
  };
  std::vector<double> losses;
  graph_.run_between([&] {
    const amp::Autocast cast(autocast_);
    if (sharded_ != nullptr) {
      losses = sharded_->run_forwards(config_.run.eval_batches, loss_of);
      return;
    }
    std::vector<backend::AsyncScalar> pending;  // read at the end, so that a GPU never waits
    for (int64_t i = 0; i < config_.run.eval_batches; ++i) pending.emplace_back(loss_of(i));
    for (const backend::AsyncScalar& loss : pending) losses.push_back(loss.get());
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum / static_cast<double>(config_.run.eval_batches);
}

StateDict Trainer::state_dict() {
  if (!pending_.empty())
    fail("state_dict", {.argument = "trainer",
                        .expected = "no unfinished step",
                        .found = std::to_string(pending_.size()),
                        .hint = "call finish_all() first"});
  announce({Order::state});
  if (sharded_ != nullptr) sharded_->gather_weights(ranks::Units::Where::first_rank);
  StateDict state;
  const StateDict model_state = model().state_dict();  // flushes histories of scales
  for (const auto& [name, tensor] : model_->named_buffers())
    state["buffer." + name] = model_state.at(name);
  StateDict optimizer_state = optimizer_->state_dict();
  if (sharded_ != nullptr) optimizer_state = sharded_->gather(optimizer_state);
  for (const auto& [name, tensor] : optimizer_state) state["optimizer." + name] = tensor;
  for (const auto& [name, value] : scaler_.state()) state["scaler." + name] = scalar(value);
  state["steps"] = scalar(static_cast<double>(steps_));
  state["skipped"] = scalar(static_cast<double>(skipped_));
  state["skipped_in_a_row"] = scalar(static_cast<double>(skipped_in_a_row_.length()));
  return state;
}

void Trainer::load_state_dict(const StateDict& state) {
  graph_.reset();
  hold_weights();
  model_->load_state_dict(below(state, "buffer."), false);
  optimizer_->load_state_dict(below(state, "optimizer."));
  if (sharded_ != nullptr) sharded_->keep_shards();
  amp::ScalerState scaler;
  for (const auto& [name, tensor] : below(state, "scaler.")) scaler[name] = tensor.item();
  scaler_.load_state(scaler);
  steps_ = static_cast<int64_t>(entry(state, "steps").item());
  skipped_ = static_cast<int64_t>(entry(state, "skipped").item());
  skipped_in_a_row_ =
      amp::SkipStreak(static_cast<int64_t>(entry(state, "skipped_in_a_row").item()));
}

}  // namespace binade::train
