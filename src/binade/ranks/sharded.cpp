#include "binade/ranks/sharded.h"

#include <algorithm>
#include <utility>

#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/exchange.h"
#include "binade/base/division.h"
#include "binade/base/random.h"
#include "binade/base/restore.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"

namespace binade::ranks {
namespace {

std::vector<int64_t> micros_of(const Place& data, const ShardedOptions& options) {
  check_micro_batches(options.micro_batches, data.size);
  if (options.stage < 1 || options.stage > 3) {
    fail("ranks",
         {.argument = "stage", .expected = "1, 2 or 3", .found = std::to_string(options.stage)});
  }
  return data.own_items(options.micro_batches);
}

// The norm of all gradients, of its parts, and what follows from it.
optim::Clip clip_of(const Tensor& norm_parts, const Tensor& found_inf, double max_norm) {
  const auto& kernels = backend::of(norm_parts).optimizer;
  optim::Clip clip{Tensor::empty_like(found_inf), {}, found_inf};
  kernels.join_norm_parts(norm_parts, clip.norm);
  if (max_norm > 0) {
    clip.factor = Tensor::empty_like(found_inf);
    kernels.clip_factor(clip.norm, max_norm, clip.factor);
  }
  return clip;
}

// The means over micro-batches with `each` scalars of the first ones, of the second ones, and so
// on, in the order and with the roundings of one process.
std::vector<Tensor> means_of(const std::vector<Tensor>& scalars, size_t each) {
  const NoGrad no_grad;
  const size_t count = scalars.size() / each;
  std::vector<Tensor> means;
  for (size_t i = 0; i < each; ++i)
    means.push_back(zeros({}, DType::f64, scalars.front().device()));
  for (size_t i = 0; i < scalars.size(); ++i)
    add_(means[i % each], scalars[i], 1.0 / static_cast<double>(count));
  return means;
}

// The number in "blocks.12.mlp.up.weight".
std::optional<size_t> block_of(const std::string& parameter) {
  constexpr std::string_view prefix = "blocks.";
  if (!parameter.starts_with(prefix)) return {};
  return std::stoul(parameter.substr(prefix.size()));
}

}  // namespace

void check_micro_batches(int64_t micro_batches, int ranks) {
  if (micro_batches >= ranks) return;
  fail("ranks", {.argument = "micro-batches of a step",
                 .expected = "at least one for each of " + std::to_string(ranks) + " ranks",
                 .found = std::to_string(micro_batches),
                 .hint = "--accumulate " + std::to_string(ranks) +
                         " or more; a smaller --batch keeps the tokens of a step"});
}

Sharded::Sharded(nn::Module& model, optim::Optimizer& optimizer,
                 std::shared_ptr<Communicator> ranks, Partition partition,
                 const ShardedOptions& options)
    : ranks_(std::move(ranks)),
      data_(ranks_->place(Group::data)),
      optimizer_(optimizer),
      partition_(std::move(partition)),
      options_(options),
      parameters_(optimizer.parameters()),
      device_(parameters_.front().device()),
      device_ranks_(on_device(ranks_, device_)),
      micros_(micros_of(data_, options)),
      amaxes_(model, data_),
      fold_(device_ranks_, partition_, parameters_,
            {.wire = options.reduce_dtype, .order = options.order}),
      tally_(device_ranks_, partition_, parameters_.size(), options.micro_batches, device_),
      hooks_(std::make_shared<Hooks>()) {
  if (data_.is_alone()) options_.stage = 2;  // there is nothing to shard
  if (std::vector<Tensor> sums = fold_.sums(); !sums.empty())
    optimizer.use_gradients(std::move(sums));
  if (options_.stage == 3) make_units(model);
  for (const Bucket& bucket : partition_.buckets()) {
    std::vector<size_t> members;
    for (const size_t i : bucket.parameters) {
      if (units_ == nullptr || !units_->contains(i)) members.push_back(i);
    }
    gathered_.emplace_back(partition_, parameters_, std::move(members));
  }
  if (options_.stage != 2) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    autograd::after_gradient(parameters_[i], [hooks = hooks_, i] {
      if (hooks->fold != nullptr) hooks->fold->note_finished(i);
    });
  }
}

Sharded::~Sharded() {
  hooks_->fold = nullptr;
  hooks_->owner = nullptr;
}

void Sharded::make_units(nn::Module& model) {
  auto* const blocks = dynamic_cast<nn::LanguageModel*>(&model);
  if (blocks == nullptr) {
    fail("ranks", {.argument = "stage",
                   .expected = "1 or 2 for a model without a language model's blocks",
                   .found = "3"});
  }
  std::vector<std::vector<size_t>> units;
  // Of each parameter: its unit; below all units if its gradient may be complete at the end only.
  constexpr int64_t before_all = -1, after_all = INT64_MAX;
  std::vector<int64_t> unit_of(parameters_.size(), before_all);
  unit_of_block_.resize(static_cast<size_t>(blocks->config().layers));
  for (const auto& [name, parameter] : model.named_parameters()) {
    const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                    [&p = parameter](const Tensor& x) { return x.same_as(p); });
    if (found == parameters_.end()) continue;  // frozen
    const auto index = static_cast<size_t>(found - parameters_.begin());
    const std::optional<size_t> block = block_of(name);
    if (!block) {
      unit_of[index] = units.empty() ? before_all : after_all;
      continue;
    }
    if (!unit_of_block_[*block]) {
      unit_of_block_[*block] = units.size();
      units.emplace_back();
    }
    units.back().push_back(index);
    unit_of[index] = std::ssize(units) - 1;
  }
  if (units.empty()) return;
  for (int64_t unit = 0; unit < std::ssize(units); ++unit) {
    size_t complete = 0;
    const auto is_complete = [&](size_t i) { return unit_of[i] > unit; };
    for (const Bucket& bucket : partition_.buckets()) {
      if (!std::all_of(bucket.parameters.begin(), bucket.parameters.end(), is_complete)) break;
      ++complete;
    }
    complete_buckets_.push_back(complete);
  }
  units_ = std::make_unique<Units>(device_ranks_, partition_, parameters_, units);
  units_->shard();
  optimizer_.use_shards(units_->shards());
  hooks_->owner = this;
  blocks->set_block_hooks({.before =
                               [hooks = hooks_](int64_t block) {
                                 if (hooks->owner != nullptr) hooks->owner->before_block(block);
                               },
                           .after =
                               [hooks = hooks_](int64_t block, std::span<const Tensor> results) {
                                 if (hooks->owner != nullptr)
                                   hooks->owner->after_block(block, results);
                               }});
}

void Sharded::before_block(int64_t block) {
  const std::optional<size_t> unit = unit_of_block_[static_cast<size_t>(block)];
  if (!unit) return;
  if (hooks_->pass) return units_->before_forward(*unit);
  if (units_->is_whole()) return;
  fail("ranks", {.argument = "weights of block " + std::to_string(block),
                 .expected = "all of them, or a forward on all ranks",
                 .found = "those of rank " + std::to_string(data_.rank),
                 .hint = "call gather_weights() on all ranks before"});
}

void Sharded::after_block(int64_t block, std::span<const Tensor> results) {
  const std::optional<size_t> unit = unit_of_block_[static_cast<size_t>(block)];
  if (!unit || hooks_->pass != Units::Pass::forward_and_backward) return;
  for (const Tensor& result : results) {
    if (!result.requires_grad()) continue;
    autograd::on_gradient(result, [hooks = hooks_, unit = *unit](const Tensor&) {
      if (hooks->pass) hooks->owner->before_backward(unit);
      return Tensor();
    });
  }
}

void Sharded::before_backward(size_t unit) {
  fold_.send_up_to(complete_buckets_[unit]);
  units_->before_backward(unit);
}

void Sharded::run_pass(Units::Pass pass, bool has_work, FunctionRef<void()> work) {
  if (units_ == nullptr) {
    if (has_work) work();
    return;
  }
  units_->begin_pass(pass);
  if (has_work) {
    const Restore<std::optional<Units::Pass>> running(hooks_->pass, pass);
    work();
  } else {
    // The collectives of the ranks that have work.
    for (size_t unit = 0; unit < units_->size(); ++unit) units_->before_forward(unit);
    if (pass == Units::Pass::forward_and_backward)
      for (size_t unit = units_->size(); unit-- > 0;) before_backward(unit);
  }
  units_->end_pass();
}

std::vector<double> Sharded::run_forwards(int64_t count, FunctionRef<Tensor(int64_t)> result_of,
                                          int64_t each) {
  std::vector<Tensor> pending;
  for (int64_t first = 0; first < count; first += data_.size) {
    const int64_t item = first + data_.rank;
    run_pass(Units::Pass::forward, item < count, [&] { pending.push_back(result_of(item)); });
  }
  std::vector<double> own;
  for (const Tensor& result : pending) {
    const bool has_values = !result.device().is_meta();
    const std::vector<double> values =
        has_values ? to_vector(result) : std::vector<double>(static_cast<size_t>(result.numel()));
    own.insert(own.end(), values.begin(), values.end());
  }
  if (data_.is_alone()) return own;
  std::vector<int64_t> bytes, starts(1, 0);
  for (int rank = 0; rank < data_.size; ++rank) {
    const int64_t values = data_.item_count(rank, count) * each;
    bytes.push_back(values * static_cast<int64_t>(sizeof(double)));
    starts.push_back(starts.back() + values);
  }
  std::vector<double> by_rank(static_cast<size_t>(starts.back())), results;
  ranks_->all_gather("results", std::as_bytes(std::span(own)),
                     std::as_writable_bytes(std::span(by_rank)), bytes);
  for (int64_t item = 0; item < count; ++item) {
    const auto index = static_cast<int64_t>(data_.index_of(item));
    const auto begin =
        by_rank.begin() + starts[static_cast<size_t>(data_.rank_of(item))] + index * each;
    results.insert(results.end(), begin, begin + each);
  }
  return results;
}

void Sharded::gather_weights(Units::Where where) {
  if (units_ != nullptr) units_->gather(where);
}

void Sharded::visit_blocks(FunctionRef<void(std::span<const Tensor>)> visitor) {
  if (units_ != nullptr) units_->visit(visitor);
}

void Sharded::keep_shards() {
  if (units_ != nullptr) units_->shard();
}

void Sharded::accumulate(FunctionRef<void(int64_t)> backward) {
  amaxes_.begin();
  for (int64_t first = 0; first < options_.micro_batches; first += data_.size) {
    const int64_t leaves = std::min<int64_t>(data_.size, options_.micro_batches - first);
    fold_.begin_round(first == 0, static_cast<int>(leaves));
    run_pass(Units::Pass::forward_and_backward, data_.rank < leaves, [&] {
      const Restore<Fold*> sending(hooks_->fold, options_.stage == 2 ? &fold_ : nullptr);
      random::begin_micro_batch(first + data_.rank);
      backward(first + data_.rank);
    });
    fold_.end_round();
  }
  fold_.finish();
}

StepNumbers Sharded::norm_numbers() const {
  const memory::CategoryGuard category(memory::Category::workspace);
  std::vector<Tensor> gradients = optimizer_.gradients();
  std::erase_if(gradients, [](const Tensor& gradient) { return !gradient.defined(); });
  int64_t parts = 0;
  for (const Tensor& gradient : gradients) parts += backend::norm_parts(gradient.numel(), device_);
  StepNumbers numbers{.norm_parts = Tensor::empty({parts}, DType::f64, device_),
                      .found_inf = zeros({1}, DType::f32, device_)};
  backend::of(device_).optimizer.gradient_norm_parts(
      std::vector<TensorView>(gradients.begin(), gradients.end()), numbers.norm_parts,
      numbers.found_inf);
  return numbers;
}

Sharded::Agreed Sharded::agree(double max_norm, const std::vector<Tensor>& losses,
                               const amp::GradientCheck* check) {
  StepNumbers own = norm_numbers();
  own.losses = losses;
  if (check != nullptr && check->found_inf.defined()) {
    own.found_inf = check->found_inf;
    own.first_bad = check->first_bad;
  }
  amaxes_.add_to(own);
  const StepNumbers all = tally_.exchange(own);
  amaxes_.take(all);
  const std::vector<Tensor> means = means_of(all.losses, losses.size() / micros_.size());
  return {.clip = clip_of(all.norm_parts, all.found_inf, max_norm),
          .loss = means.front(),
          .others = {means.begin() + 1, means.end()}};
}

void Sharded::gather_parameters(const Tensor& found_inf) {
  if (data_.is_alone()) return;
  if (backend::capabilities(device_).is_host_readable && found_inf.item() != 0) return;
  const memory::CategoryGuard category(memory::Category::workspace);
  for (size_t b = 0; b < gathered_.size(); ++b) {
    const GatherGroup& group = gathered_[b];
    if (group.bytes() == 0) continue;
    const int64_t own = group.counts()[static_cast<size_t>(data_.rank)];
    const Tensor out = Tensor::empty({own}, DType::u8, device_),
                 in = Tensor::empty({group.bytes()}, DType::u8, device_);
    group.pack(data_.rank, {}, out);
    device_ranks_->all_gather(
        "weights of bucket " + std::to_string(b), {element_bytes(out, 0), static_cast<size_t>(own)},
        {element_bytes(in, 0), static_cast<size_t>(group.bytes())}, group.counts());
    group.unpack(in, data_.rank);
  }
}

StateDict Sharded::gather(const StateDict& optimizer_state) {
  if (data_.is_alone()) return optimizer_state;
  StateDict result;
  for (const auto& [name, own] : optimizer_state) {
    if (name.ends_with("steps")) {
      result[name] = own;
      continue;
    }
    const size_t index = std::stoul(name);
    const Tensor& parameter = parameters_[index];
    const auto size = static_cast<int64_t>(size_of(own.dtype()));
    std::vector<int64_t> counts;
    for (int rank = 0; rank < data_.size; ++rank)
      counts.push_back(optim::state_elements(name, partition_.owned(index, rank).size()) * size);
    const int64_t elements = optim::state_elements(name, parameter.numel());
    const Shape shape = elements == parameter.numel() ? parameter.shape() : Shape{elements};
    const Tensor whole =
        Tensor::empty(data_.rank == 0 ? shape : Shape{0}, own.dtype(), own.device());
    device_ranks_->gather("state " + name,
                          {element_bytes(own, 0), static_cast<size_t>(own.bytes())},
                          {element_bytes(whole, 0), static_cast<size_t>(whole.bytes())}, counts);
    // Rank 0's GPU has memory for one whole tensor, its host for all.
    result[name] = data_.rank == 0 ? to(whole, Device::cpu()) : own;
  }
  return result;
}

ShardedStep Sharded::step(amp::GradScaler& scaler, double max_norm,
                          FunctionRef<Tensor(int64_t)> loss_of) {
  const double fraction = 1.0 / static_cast<double>(options_.micro_batches);
  std::vector<Tensor> losses;
  optimizer_.zero_grad();
  accumulate([&](int64_t micro) {
    Tensor loss = loss_of(micro);
    losses.push_back(loss.detach());
    if (options_.micro_batches > 1) loss = loss * fraction;
    scaler.scale(loss).backward();
  });
  scaler.unscale(optimizer_);
  std::optional<amp::GradientCheck> check;
  if (scaler.enabled()) check = scaler.check_of(optimizer_);
  const Agreed agreed = agree(max_norm, losses, check ? &*check : nullptr);
  const ShardedStep result{.loss = agreed.loss.item(),
                           .gradient_norm = agreed.clip.norm.item(),
                           .applied = agreed.clip.found_inf.item() == 0};
  if (scaler.enabled()) {
    scaler.step(optimizer_, agreed.clip.factor);
    scaler.update();
  } else {
    optimizer_.step({.gradient_factor = agreed.clip.factor, .skip = agreed.clip.found_inf});
  }
  gather_parameters(agreed.clip.found_inf);
  return result;
}

}  // namespace binade::ranks
