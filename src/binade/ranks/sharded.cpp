#include "binade/ranks/sharded.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/exchange.h"
#include "binade/backend/optimizer.h"
#include "binade/base/division.h"
#include "binade/base/restore.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"

namespace binade::ranks {
namespace {

std::vector<int64_t> micros_of(const Communicator& ranks, const ShardedOptions& options) {
  check_micro_batches(options.micro_batches, ranks.size());
  if (options.stage < 1 || options.stage > 3) {
    fail("ranks",
         {.argument = "stage", .expected = "1, 2 or 3", .found = std::to_string(options.stage)});
  }
  std::vector<int64_t> micros;
  for (int64_t micro = ranks.rank(); micro < options.micro_batches; micro += ranks.size())
    micros.push_back(micro);
  return micros;
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

// In the order and with the roundings of one process.
Tensor mean_of(const std::vector<Tensor>& losses) {
  const NoGrad no_grad;
  const Tensor mean = zeros({}, DType::f64, losses.front().device());
  for (const Tensor& loss : losses) add_(mean, loss, 1.0 / static_cast<double>(losses.size()));
  return mean;
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
      optimizer_(optimizer),
      partition_(std::move(partition)),
      options_(options),
      parameters_(optimizer.parameters()),
      device_(parameters_.front().device()),
      device_ranks_(on_device(ranks_, device_)),
      micros_(micros_of(*ranks_, options)),
      amaxes_(model),
      fold_(device_ranks_, partition_, parameters_,
            {.wire = options.reduce_dtype, .order = options.order}),
      hooks_(std::make_shared<Hooks>()) {
  if (backend::capabilities(device_).is_asynchronous)
    device_tally_.emplace(device_ranks_, partition_, parameters_.size(), options.micro_batches,
                          device_);
  optimizer.use_gradients(fold_.sums());
  if (options.stage == 3) make_units(model);
  for (const Bucket& bucket : partition_.buckets()) {
    std::vector<size_t> members;
    for (const size_t i : bucket.parameters) {
      if (units_ == nullptr || !units_->contains(i)) members.push_back(i);
    }
    gathered_.emplace_back(partition_, parameters_, std::move(members));
  }
  if (options.stage != 2) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    autograd::on_gradient(parameters_[i], [hooks = hooks_, i](const Tensor&) {
      if (hooks->fold != nullptr) hooks->fold->note_finished(i);
      return Tensor();
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
                 .found = "those of rank " + std::to_string(ranks_->rank()),
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

void Sharded::run_forwards(int64_t count, FunctionRef<void(int64_t)> forward) {
  for (int64_t first = 0; first < count; first += ranks_->size()) {
    const int64_t own = first + ranks_->rank();
    run_pass(Units::Pass::forward, own < count, [&] { forward(own); });
  }
}

void Sharded::gather_weights(Units::Where where) {
  if (units_ != nullptr) units_->gather(where);
}

void Sharded::keep_shards() {
  if (units_ != nullptr) units_->shard();
}

void Sharded::accumulate(FunctionRef<void(int64_t)> backward) {
  device_tally_ ? amaxes_.begin_on_device() : amaxes_.begin();
  const int64_t ranks = ranks_->size();
  for (int64_t first = 0; first < options_.micro_batches; first += ranks) {
    const int64_t leaves = std::min(ranks, options_.micro_batches - first);
    fold_.begin_round(first == 0, static_cast<int>(leaves));
    run_pass(Units::Pass::forward_and_backward, ranks_->rank() < leaves, [&] {
      const Restore<Fold*> sending(hooks_->fold, options_.stage == 2 ? &fold_ : nullptr);
      backward(first + ranks_->rank());
    });
    fold_.end_round();
  }
}

void Sharded::take_host_facts(const StepWhole& whole) {
  all_facts_ = {.stop = whole.stop, .seconds = whole.seconds, .waited = whole.waited};
}

void Sharded::set_host_facts(const HostFacts& own) {
  own_facts_ = own;
  if (device_tally_)
    take_host_facts(
        tally(*ranks_, {.stop = own.stop, .seconds = own.seconds, .waited = own.waited}));
}

Sharded::Agreed Sharded::agree(double max_norm, const std::vector<Tensor>& losses,
                               const amp::GradientCheck* check) {
  if (device_.is_meta()) {
    const Tensor one = Tensor::empty({1}, DType::f32, device_);
    const Tensor loss = Tensor::empty({}, DType::f64, device_);
    return {.clip = {.norm = one, .factor = max_norm > 0 ? one : Tensor(), .found_inf = one},
            .loss = loss};
  }
  if (device_tally_) return agree_on_gpu(max_norm, losses, check);
  const std::vector<Tensor> gradients = optimizer_.gradients();
  StepPart own{.stop = own_facts_.stop, .seconds = own_facts_.seconds, .waited = own_facts_.waited};
  for (const Tensor& loss : losses) own.losses.push_back(loss.item());
  int64_t pieces = 0;
  for (const Tensor& gradient : gradients)
    pieces += divide_up(gradient.numel(), backend::norm_piece);
  const Tensor parts = Tensor::empty({pieces}, DType::f64), found_inf = zeros({1}, DType::f32);
  const auto& kernels = backend::of(found_inf).optimizer;
  kernels.gradient_norm_parts(std::vector<TensorView>(gradients.begin(), gradients.end()), parts,
                              found_inf);
  const auto* values = static_cast<const double*>(parts.raw_data());
  own.norm_parts.assign(values, values + pieces);
  own.found_inf = check == nullptr ? found_inf.item() : check->found_inf.item();
  if (check != nullptr) own.first_bad = static_cast<int64_t>(check->first_bad.item());
  amaxes_.add_to(own);
  const StepWhole whole = tally(*ranks_, own);
  amaxes_.take(whole);
  take_host_facts(whole);
  if (check != nullptr) {
    *check->found_inf.mutable_data<float>() = static_cast<float>(whole.found_inf);
    *check->first_bad.mutable_data<int32_t>() = static_cast<int32_t>(whole.first_bad);
  }
  // The parts of each parameter, in the order of its elements, which is that of its owners.
  std::vector<double> ordered;
  std::vector<size_t> next(whole.norm_parts.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      const int64_t count = divide_up(partition_.owned(i, rank).size(), backend::norm_piece);
      const auto& from = whole.norm_parts[static_cast<size_t>(rank)];
      size_t& at = next[static_cast<size_t>(rank)];
      for (int64_t k = 0; k < count; ++k) ordered.push_back(from.at(at++));
    }
  }
  const Tensor all = Tensor::empty({std::ssize(ordered)}, DType::f64);
  if (!ordered.empty())
    std::memcpy(all.mutable_data<double>(), ordered.data(), ordered.size() * sizeof(double));
  std::vector<Tensor> in_order;
  for (int64_t micro = 0; micro < options_.micro_batches; ++micro) {
    const auto& from = whole.losses[static_cast<size_t>(micro % ranks_->size())];
    in_order.push_back(full({}, from.at(static_cast<size_t>(micro / ranks_->size())), DType::f64));
  }
  return {.clip = clip_of(all, full({1}, whole.found_inf, DType::f32), max_norm),
          .loss = mean_of(in_order)};
}

Sharded::Agreed Sharded::agree_on_gpu(double max_norm, const std::vector<Tensor>& losses,
                                      const amp::GradientCheck* check) {
  const std::vector<Tensor> gradients = optimizer_.gradients();
  int64_t pieces = 0;
  for (const Tensor& gradient : gradients)
    pieces += divide_up(gradient.numel(), backend::gpu_norm_piece);
  DeviceTally::Part part{.norm_parts = Tensor::empty({pieces}, DType::f64, device_),
                         .found_inf = zeros({1}, DType::f32, device_),
                         .first_bad = {},
                         .losses = losses};
  backend::of(device_).optimizer.gradient_norm_parts(
      std::vector<TensorView>(gradients.begin(), gradients.end()), part.norm_parts, part.found_inf);
  if (check != nullptr) {
    part.found_inf = check->found_inf;
    part.first_bad = check->first_bad;
  }
  amaxes_.add_to(part);
  const DeviceTally::Whole whole = device_tally_->exchange(part);
  amaxes_.take(whole);
  const auto& copy = backend::of(device_).elementwise.copy;
  if (check != nullptr) {
    copy(whole.found_inf, check->found_inf);
    copy(whole.first_bad, check->first_bad);
  }
  const Tensor found_inf = Tensor::empty({1}, DType::f32, device_);
  copy(whole.found_inf, found_inf);
  return {.clip = clip_of(whole.norm_parts, found_inf, max_norm), .loss = mean_of(whole.losses)};
}

void Sharded::gather_parameters() {
  if (ranks_->size() == 1) return;
  const memory::CategoryGuard category(memory::Category::workspace);
  for (size_t b = 0; b < gathered_.size(); ++b) {
    const GatherGroup& group = gathered_[b];
    if (group.bytes() == 0) continue;
    const int64_t own = group.counts()[static_cast<size_t>(ranks_->rank())];
    const Tensor out = Tensor::empty({own}, DType::u8, device_),
                 in = Tensor::empty({group.bytes()}, DType::u8, device_);
    group.pack(ranks_->rank(), {}, out);
    device_ranks_->all_gather(
        "weights of bucket " + std::to_string(b), {element_bytes(out, 0), static_cast<size_t>(own)},
        {element_bytes(in, 0), static_cast<size_t>(group.bytes())}, group.counts());
    group.unpack(in, ranks_->rank());
  }
}

StateDict Sharded::gather(const StateDict& optimizer_state) {
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
    for (int rank = 0; rank < ranks_->size(); ++rank)
      counts.push_back(optim::state_elements(name, partition_.owned(index, rank).size()) * size);
    const int64_t elements = optim::state_elements(name, parameter.numel());
    const Shape shape = elements == parameter.numel() ? parameter.shape() : Shape{elements};
    const Tensor whole =
        Tensor::empty(ranks_->rank() == 0 ? shape : Shape{0}, own.dtype(), own.device());
    device_ranks_->gather("state " + name,
                          {element_bytes(own, 0), static_cast<size_t>(own.bytes())},
                          {element_bytes(whole, 0), static_cast<size_t>(whole.bytes())}, counts);
    // Rank 0's GPU has memory for one whole tensor, its host for all.
    result[name] = ranks_->rank() == 0 ? to(whole, Device::cpu()) : own;
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
  if (result.applied) gather_parameters();
  return result;
}

}  // namespace binade::ranks
