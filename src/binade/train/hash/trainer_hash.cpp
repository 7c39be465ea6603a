#include <bit>
#include <numeric>
#include <span>
#include <string>

#include "binade/optim/slot.h"
#include "binade/train/trainer.h"

// The hash of what a Trainer holds. Each rank adds up the elements that it updates, and rank 0 what
// all ranks have alike.
namespace binade::train {
namespace {

// "12.first" as {12, "first"}.
std::pair<size_t, std::string> parsed_entry(const std::string& entry) {
  const size_t dot = entry.find('.');
  return {std::stoul(entry), entry.substr(dot + 1)};
}

}  // namespace

std::vector<uint64_t> Trainer::sums_of_ranks(const std::vector<uint64_t>& own) {
  const auto ranks = static_cast<size_t>(ranks_->size());
  std::vector<uint64_t> all(own.size() * ranks), sums(own.size());
  const std::vector<int64_t> bytes(ranks, std::ssize(own) * int64_t{sizeof(uint64_t)});
  ranks_->all_gather("hashes", std::as_bytes(std::span(own)),
                     std::as_writable_bytes(std::span(all)), bytes);
  for (size_t i = 0; i < all.size(); ++i) sums[i % own.size()] += all[i];
  return sums;
}

StateHash Trainer::hash() {
  require_no_pending("hash");
  announce({Order::hash});
  const StateDict model_state = model().state_dict();  // flushes histories of scales
  const ranks::Place place = ranks_->place(ranks::Group::data);
  TensorHasher weights(device_), moments(device_), scales(device_), data(device_);
  const std::vector<Tensor> updated = optimizer_->parameters();
  const auto begin_of = [&](size_t i) { return partition_.owned(i, place.rank).begin; };
  for (size_t i = 0; i < updated.size(); ++i)
    weights.add(std::to_string(i), optimizer_->own_elements(updated[i]), begin_of(i));
  for (const auto& [name, tensor] : optimizer_->state_dict()) {
    if (name.ends_with("steps")) {
      if (place.rank == 0) moments.add(name, tensor);
      continue;
    }
    const auto [index, entry] = parsed_entry(name);
    (entry == "master" ? weights : moments)
        .add(name, tensor, optim::state_elements(entry, begin_of(index)));
  }
  if (place.rank == 0) {
    for (const auto& [name, parameter] : model_->named_parameters()) {
      if (!parameter.requires_grad()) weights.add(name, parameter);
    }
    for (const auto& [path, module] : model_->named_modules()) {
      const auto* linear = dynamic_cast<const nn::Linear*>(module);
      if (linear == nullptr || linear->block_weight() == nullptr) continue;
      const std::vector<BlockPart>& parts = linear->block_weight()->parts;
      for (size_t i = 0; i < parts.size(); ++i)
        weights.add(path + ".blocks." + std::to_string(i), parts[i].blocks);
    }
    for (const auto& [name, tensor] : model_->named_buffers())
      scales.add(name, model_state.at(name));
    for (const auto& [name, value] : scaler_.state()) scales.add("scaler." + name, value);
    scales.add("skipped", static_cast<double>(skipped_));
    data.add("steps", static_cast<double>(steps_));
  }
  const std::vector<uint64_t> sums =
      sums_of_ranks({weights.sum(), moments.sum(), scales.sum(), data.sum() + batches_});
  return {sums[0], sums[1], sums[2], sums[3]};
}

}  // namespace binade::train
