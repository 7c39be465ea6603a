#include <algorithm>
#include <bit>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/create.h"
#include "binade/tensor/memory.h"
#include "binade/train/init_from.h"
#include "binade/train/trainer.h"

// What a Trainer loads and what its checkpoints hold.
namespace binade::train {
namespace {

Tensor floats(const std::vector<float>& values) {
  const Tensor result = Tensor::empty({std::ssize(values)}, DType::f32);
  std::copy(values.begin(), values.end(), result.mutable_data<float>());
  return result;
}

std::vector<float> floats(const Tensor& x) {
  if (x.dtype() != DType::f32 || x.rank() != 1)
    fail("trainer state", {.argument = "reference", .expected = "f32 [n]", .found = describe(x)});
  return {x.data<float>(), x.data<float>() + x.numel()};
}

Tensor scalar(double value) { return full({1}, value, DType::f64); }

const Tensor& entry(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end())
    fail("trainer state", {.argument = name, .expected = "an entry of that name", .found = "none"});
  return found->second;
}

uint64_t whole_number(const Tensor& x) {
  if (x.dtype() != DType::i64 || x.numel() != 1)
    fail("trainer state", {.argument = "batches", .expected = "one i64", .found = describe(x)});
  return std::bit_cast<uint64_t>(*x.data<int64_t>());
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

void Trainer::init_from(const std::filesystem::path& given) {
  announce({Order::init, given.string()});
  hold_weights();
  load_initial_weights(*model_, given);
  // Master weights are copies of the parameters. Those of 16-bit parameters, which were rounded
  // when they were loaded, are loaded again in f32.
  sharded_.reset();
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
  sharded_ = new_sharded();  // stage 3 shards the weights
  graph_.reset();
}

void Trainer::load_adapter(const std::filesystem::path& folder) {
  announce({Order::adapter, folder.string()});
  hold_weights();
  io::load_adapter_tensors(*model_, io::load_safetensors(folder / "adapter_model.safetensors"));
  sharded_->keep_shards();
}

void Trainer::require_no_pending(std::string_view caller) const {
  if (!pending_.empty())
    fail(caller, {.argument = "trainer",
                  .expected = "no unfinished step",
                  .found = std::to_string(pending_.size()),
                  .hint = "call finish_all() first"});
}

bool Trainer::shares_weights() const {
  return config_.ranks.weight_shards && config_.lora.rank == 0 &&
         !ranks_->place(ranks::Group::data).is_alone();
}

io::WeightShards Trainer::weight_shards() const {
  return {io::huggingface_bytes(*model_), ranks_->place(ranks::Group::data).size};
}

WeightShard Trainer::take_shard(const std::string& folder) {
  announce({Order::shard, folder});
  const memory::CategoryGuard category(memory::Category::workspace);
  const io::WeightShards shards = weight_shards();
  const int rank = ranks_->place(ranks::Group::data).rank;
  StateDict parameters;
  for (const auto& [name, parameter] : model_->named_parameters()) parameters[name] = parameter;
  WeightShard shard{.file = shards.file(rank), .tensors = {}};
  const auto take = [&](FunctionRef<bool(const Tensor& parameter)> is_whole) {
    shard.tensors.merge(
        io::to_huggingface(*model_, [&](const std::string& name, const std::string& parameter) {
          return shards.contains(rank, name) && !shard.tensors.contains(name) &&
                 is_whole(parameters.at(parameter));
        }));
  };
  sharded_->visit_blocks([&](std::span<const Tensor> block) {
    take([&](const Tensor& parameter) {
      return std::any_of(block.begin(), block.end(),
                         [&](const Tensor& one) { return one.same_as(parameter); });
    });
  });
  take([](const Tensor&) { return true; });
  return shard;
}

StateDict Trainer::state_dict() {
  require_no_pending("state_dict");
  announce({Order::state});
  if (!shares_weights()) sharded_->gather_weights(ranks::Units::Where::first_rank);
  StateDict state;
  const StateDict model_state = model().state_dict();  // flushes histories of scales
  for (const auto& [name, tensor] : model_->named_buffers())
    state["buffer." + name] = model_state.at(name);
  for (const auto& [name, tensor] : sharded_->gather(optimizer_->state_dict()))
    state["optimizer." + name] = tensor;
  for (const auto& [name, value] : scaler_.state()) state["scaler." + name] = scalar(value);
  state["batches"] = Tensor::empty({1}, DType::i64);
  *state["batches"].mutable_data<int64_t>() = std::bit_cast<int64_t>(sums_of_ranks({batches_})[0]);
  if (reference_) {
    state["reference.train"] = floats(reference_->train);
    state["reference.validation"] = floats(reference_->validation);
  }
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
  sharded_->keep_shards();
  amp::ScalerState scaler;
  for (const auto& [name, tensor] : below(state, "scaler.")) scaler[name] = tensor.item();
  scaler_.load_state(scaler);
  // Rank 0 has the sum so far. Checkpoints of older versions have none.
  const bool has_batches = ranks_->rank() == 0 && state.contains("batches");
  batches_ = has_batches ? whole_number(entry(state, "batches")) : 0;
  reference_.reset();
  if (config_.objective.has_pairs())
    reference_ = Reference{.train = floats(entry(state, "reference.train")),
                           .validation = floats(entry(state, "reference.validation"))};
  steps_ = static_cast<int64_t>(entry(state, "steps").item());
  skipped_ = static_cast<int64_t>(entry(state, "skipped").item());
  skipped_in_a_row_ =
      amp::SkipStreak(static_cast<int64_t>(entry(state, "skipped_in_a_row").item()));
}

}  // namespace binade::train
