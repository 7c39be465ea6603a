#include <fmt/format.h>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/base/division.h"
#include "binade/formats/dynamic_code.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/optim/optimizer.h"

// The state of an optimizer between steps: master weights, moments and counts.
namespace binade::optim {

int64_t state_elements(std::string_view entry, int64_t count) {
  return entry.ends_with("_scale") ? divide_up(count, formats::dynamic_block) : count;
}

Tensor Optimizer::joined(const Tensor& parameter, const Slot& slot) {
  const Tensor master = Tensor::empty(parameter.shape(), DType::f32, parameter.device());
  backend::of(parameter).optimizer.join_master(parameter, slot.rest, master);
  return master;
}

Optimizer::Slot& Optimizer::slot_of(const Tensor& parameter) {
  for (Slot* slot : all_slots()) {
    if (slot->parameter.same_as(parameter)) return *slot;
  }
  fail(name_, {.argument = "parameter",
               .expected = "one of this optimizer's",
               .found = describe(parameter)});
}

Tensor Optimizer::master_of(const Tensor& parameter) {
  Slot& slot = slot_of(parameter);
  refresh_master(slot);
  if (slot.rest.defined()) return joined(own_elements(slot), slot);
  return slot.master.defined() ? slot.master : own_elements(slot);
}

void Optimizer::set_master(const Tensor& parameter, const Tensor& whole) {
  const NoGrad no_grad;
  Slot& slot = slot_of(parameter);
  if (slot.rest.defined()) return load_split(slot, whole);
  copy_(master_of(parameter), part_of(slot, whole));
}

std::vector<std::pair<std::string, Tensor*>> Optimizer::named_state(Slot& slot) {
  std::vector<std::pair<std::string, Tensor*>> result;
  const std::pair<const char*, Tensor*> all[] = {
      {"master", &slot.master},           {"first", &slot.first},
      {"second", &slot.second},           {"third", &slot.third},
      {"first_scale", &slot.first_scale}, {"second_scale", &slot.second_scale}};
  for (const auto& [name, tensor] : all) {
    if (tensor->defined()) result.emplace_back(name, tensor);
  }
  return result;
}

void Optimizer::forget_skipped() {
  if (!skipped_.defined()) return;
  const int64_t applied = steps();
  known_skipped_ -= started_ - applied;
  started_ = applied;
  for (Slot* slot : all_slots()) slot->steps -= static_cast<int64_t>(slot->skipped.item());
  backend::of(skipped_).elementwise.fill(skipped_, 0);
}

StateDict Optimizer::state_dict() {
  forget_skipped();
  for (Slot* slot : all_slots()) refresh_master(*slot);
  StateDict state;
  state["steps"] = full({}, static_cast<double>(started_), DType::i64);
  size_t index = 0;
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) {
      const std::string prefix = std::to_string(index++) + ".";
      for (const auto& [name, tensor] : named_state(slot)) state[prefix + name] = *tensor;
      if (slot.rest.defined()) state[prefix + "master"] = joined(own_elements(slot), slot);
      state[prefix + "steps"] = full({}, static_cast<double>(slot.steps), DType::i64);
    }
  }
  return state;
}

void Optimizer::load_split(Slot& slot, const Tensor& whole) const {
  const Tensor& parameter = slot.parameter;
  const auto& kernels = backend::of(parameter).optimizer;
  const Tensor master = Tensor::empty(parameter.shape(), DType::f32, parameter.device());
  copy_(master, whole);
  kernels.split_master(master, parameter, {});
  parameter.bump_version();
  kernels.split_master(part_of(slot, master), own_elements(slot), slot.rest);
}

void Optimizer::load_state_dict(const StateDict& state) {
  const StateDict mine = state_dict();
  const std::vector<Slot*> slots = all_slots();
  // Of the whole tensor, whatever part of it this process has.
  const auto shape_of = [&](const std::string& name, const Tensor& tensor) {
    if (options_.parts.empty() || name.ends_with("steps")) return tensor.shape();
    const Tensor& parameter = slots[std::stoul(name)]->parameter;
    const int64_t elements = state_elements(name, parameter.numel());
    return elements == parameter.numel() ? parameter.shape() : Shape{elements};
  };
  for (const auto& [name, tensor] : mine) {
    const auto found = state.find(name);
    const Shape expected = shape_of(name, tensor);
    if (found == state.end() || found->second.shape() != expected) {
      fail(name_,
           {.argument = "state " + name,
            .expected = to_string(expected) + " " + std::string(binade::name(tensor.dtype())) +
                        " " + to_string(tensor.device()),
            .found = found == state.end() ? "nothing" : describe(found->second),
            .hint = "the state belongs to another model or optimizer"});
    }
    if (name.ends_with("steps") && !(found->second.item() >= 0)) {
      fail(name_, {.argument = "state " + name,
                   .expected = "at least 0",
                   .found = fmt::format("{}", found->second.item())});
    }
  }
  if (state.size() != mine.size()) {
    fail(name_, {.argument = "state",
                 .expected = std::to_string(mine.size()) + " entries",
                 .found = std::to_string(state.size())});
  }
  const NoGrad no_grad;
  started_ = static_cast<int64_t>(state.at("steps").item());
  size_t index = 0;
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) {
      const std::string prefix = std::to_string(index++) + ".";
      for (const auto& [name, tensor] : named_state(slot))
        copy_(*tensor, part_of(slot, name, state.at(prefix + name)));
      if (slot.rest.defined()) load_split(slot, state.at(prefix + "master"));
      if (slot.master.defined()) {
        copy_(slot.parameter, state.at(prefix + "master"));
        slot.version = slot.parameter.version();
      }
      slot.steps = static_cast<int64_t>(state.at(prefix + "steps").item());
    }
  }
}

}  // namespace binade::optim
