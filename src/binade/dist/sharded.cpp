#include "binade/dist/sharded.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/optimizer.h"
#include "binade/base/division.h"
#include "binade/ops/arithmetic.h"
#include "binade/ops/copy.h"
#include "binade/ops/create.h"

namespace binade::dist {
namespace {

std::vector<int64_t> micros_of(const Communicator& ranks, const ShardedOptions& options) {
  if (options.micro_batches < ranks.size()) {
    fail("ranks",
         {.argument = "micro-batches of a step",
          .expected = "at least one for each of " + std::to_string(ranks.size()) + " ranks",
          .found = std::to_string(options.micro_batches),
          .hint = "--accumulate " + std::to_string(ranks.size()) +
                  " or more; a smaller --batch keeps the tokens of a step"});
  }
  if (options.stage != 1 && options.stage != 2) {
    fail("ranks",
         {.argument = "stage", .expected = "1 or 2", .found = std::to_string(options.stage)});
  }
  std::vector<int64_t> micros;
  for (int64_t micro = ranks.rank(); micro < options.micro_batches; micro += ranks.size())
    micros.push_back(micro);
  return micros;
}

std::byte* element_bytes(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.raw_data()) +
         element * static_cast<int64_t>(size_of(tensor.dtype()));
}

}  // namespace

Sharded::Sharded(nn::Module& model, optim::Optimizer& optimizer,
                 std::shared_ptr<Communicator> ranks, Partition partition,
                 const ShardedOptions& options)
    : ranks_(std::move(ranks)),
      optimizer_(optimizer),
      partition_(std::move(partition)),
      options_(options),
      parameters_(optimizer.parameters()),
      micros_(micros_of(*ranks_, options)),
      fp8_(model),
      fold_(ranks_, partition_, parameters_,
            {.wire = options.reduce_dtype, .release = options.stage > 1}),
      hooks_(std::make_shared<Hooks>()) {
  optimizer.use_gradients(fold_.sums());
  if (options.stage < 2) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    autograd::on_gradient(parameters_[i], [hooks = hooks_, i](const Tensor&) {
      if (hooks->fold != nullptr) hooks->fold->note_finished(i);
      return Tensor();
    });
  }
}

Sharded::~Sharded() { hooks_->fold = nullptr; }

void Sharded::accumulate(FunctionRef<void(int64_t)> backward) {
  fp8_.begin();
  const int64_t ranks = ranks_->size();
  for (int64_t first = 0; first < options_.micro_batches; first += ranks) {
    const int64_t leaves = std::min(ranks, options_.micro_batches - first);
    fold_.begin_round(first == 0, static_cast<int>(leaves));
    if (ranks_->rank() < leaves) {
      hooks_->fold = &fold_;
      backward(first + ranks_->rank());
      hooks_->fold = nullptr;
    }
    fold_.end_round();
  }
}

Sharded::Agreed Sharded::agree(double max_norm, StepPart own, const amp::GradientCheck* check) {
  const std::vector<Tensor> gradients = optimizer_.gradients();
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
  fp8_.add_to(own);
  const StepWhole whole = tally(*ranks_, own);
  fp8_.take(whole);
  if (check != nullptr) {
    *check->found_inf.mutable_data<float>() = static_cast<float>(whole.found_inf);
    *check->first_bad.mutable_data<int32_t>() = static_cast<int32_t>(whole.first_bad);
  }
  Agreed agreed{.clip = {.norm = Tensor::empty({1}, DType::f32),
                         .factor = {},
                         .found_inf = full({1}, whole.found_inf, DType::f32)},
                .losses = {},
                .stop = whole.stop};
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
  kernels.join_norm_parts(all, agreed.clip.norm);
  if (max_norm > 0) {
    agreed.clip.factor = Tensor::empty({1}, DType::f32);
    kernels.clip_factor(agreed.clip.norm, max_norm, agreed.clip.factor);
  }
  for (int64_t micro = 0; micro < options_.micro_batches; ++micro) {
    const auto& from = whole.losses[static_cast<size_t>(micro % ranks_->size())];
    const auto index = static_cast<size_t>(micro / ranks_->size());
    if (index < from.size()) agreed.losses.push_back(from[index]);
  }
  return agreed;
}

void Sharded::gather_parameters() {
  if (ranks_->size() == 1) return;
  const NoGrad no_grad;
  const auto ranks = static_cast<size_t>(ranks_->size());
  for (size_t b = 0; b < partition_.buckets().size(); ++b) {
    const Bucket& bucket = partition_.buckets()[b];
    std::vector<int64_t> counts(ranks);
    for (const size_t i : bucket.parameters) {
      for (size_t rank = 0; rank < ranks; ++rank) {
        counts[rank] += partition_.owned(i, static_cast<int>(rank)).size() *
                        static_cast<int64_t>(size_of(parameters_[i].dtype()));
      }
    }
    int64_t all = 0;
    for (const int64_t count : counts) all += count;
    const memory::CategoryGuard category(memory::Category::workspace);
    const int64_t own = counts[static_cast<size_t>(ranks_->rank())];
    const Tensor out = Tensor::empty({own}, DType::u8), in = Tensor::empty({all}, DType::u8);
    // In bucket order: the owned elements of each parameter one after the other, rank by rank.
    const auto for_each_part = [&](int rank, const Tensor& buffer, int64_t begin, auto copy) {
      int64_t at = begin;
      for (const size_t i : bucket.parameters) {
        const Range owned = partition_.owned(i, rank);
        const int64_t bytes = owned.size() * static_cast<int64_t>(size_of(parameters_[i].dtype()));
        if (bytes == 0) continue;
        copy(element_bytes(parameters_[i], owned.begin), element_bytes(buffer, at),
             static_cast<size_t>(bytes));
        at += bytes;
      }
    };
    for_each_part(ranks_->rank(), out, 0,
                  [](std::byte* parameter, std::byte* buffer, size_t bytes) {
                    std::memcpy(buffer, parameter, bytes);
                  });
    ranks_->all_gather("weights of bucket " + std::to_string(b),
                       {element_bytes(out, 0), static_cast<size_t>(own)},
                       {element_bytes(in, 0), static_cast<size_t>(all)}, counts);
    int64_t begin = 0;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      if (rank != ranks_->rank()) {
        for_each_part(rank, in, begin, [](std::byte* parameter, std::byte* buffer, size_t bytes) {
          std::memcpy(parameter, buffer, bytes);
        });
      }
      begin += counts[static_cast<size_t>(rank)];
    }
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
    const auto size = static_cast<int64_t>(size_of(own.dtype()));
    std::vector<int64_t> counts;
    for (int rank = 0; rank < ranks_->size(); ++rank)
      counts.push_back(partition_.owned(index, rank).size() * size);
    const Shape shape = ranks_->rank() == 0 ? parameters_[index].shape() : Shape{0};
    const Tensor whole = Tensor::empty(shape, own.dtype());
    ranks_->gather("state " + name, {element_bytes(own, 0), static_cast<size_t>(own.bytes())},
                   {element_bytes(whole, 0), static_cast<size_t>(whole.bytes())}, counts);
    result[name] = ranks_->rank() == 0 ? whole : own;
  }
  return result;
}

ShardedStep Sharded::step(amp::GradScaler& scaler, double max_norm,
                          FunctionRef<Tensor(int64_t)> loss_of) {
  const double fraction = 1.0 / static_cast<double>(options_.micro_batches);
  StepPart part;
  optimizer_.zero_grad();
  accumulate([&](int64_t micro) {
    Tensor loss = loss_of(micro);
    part.losses.push_back(loss.item());
    if (options_.micro_batches > 1) loss = loss * fraction;
    scaler.scale(loss).backward();
  });
  scaler.unscale(optimizer_);
  std::optional<amp::GradientCheck> check;
  if (scaler.enabled()) check = scaler.check_of(optimizer_);
  const Agreed agreed = agree(max_norm, std::move(part), check ? &*check : nullptr);
  ShardedStep result{.gradient_norm = agreed.clip.norm.item(),
                     .applied = agreed.clip.found_inf.item() == 0};
  for (const double loss : agreed.losses) result.loss += loss * fraction;
  if (scaler.enabled()) {
    scaler.step(optimizer_, agreed.clip.factor);
    scaler.update();
  } else {
    optimizer_.step({.gradient_factor = agreed.clip.factor, .skip = agreed.clip.found_inf});
  }
  if (result.applied) gather_parameters();
  return result;
}

}  // namespace binade::dist
