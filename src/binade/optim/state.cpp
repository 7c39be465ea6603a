#include <fmt/format.h>

#include "binade/autograd/grad_mode.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/optim/optimizer.h"

// The state of an optimizer between steps: master weights, moments and counts.
namespace binade::optim {

Slot& Optimizer::slot_of(const Tensor& parameter) {
  for (Slot* slot : all_slots()) {
    if (slot->parameter.same_as(parameter)) return *slot;
  }
  fail(name(), {.argument = "parameter",
                .expected = "one of this optimizer's",
                .found = describe(parameter)});
}

Tensor Optimizer::master_of(const Tensor& parameter) {
  Slot& slot = slot_of(parameter);
  const Tensor elements = slot.own_elements();
  slot.master.follow(parameter, elements);
  return slot.master.read(elements);
}

void Optimizer::set_master(const Tensor& parameter, const Tensor& whole) {
  const NoGrad no_grad;
  Slot& slot = slot_of(parameter);
  if (slot.master.is_split()) return load_split_master(slot, whole);
  copy_(master_of(parameter), slot.part_of(whole));
}

StateDict Optimizer::state_dict() {
  const std::vector<Slot*> slots = all_slots();
  counts_.forget_skipped(slots);
  StateDict state;
  state["steps"] = full({}, static_cast<double>(counts_.started()), DType::i64);
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = *slots[i];
    const Tensor elements = slot.own_elements();
    slot.master.follow(slot.parameter, elements);
    const std::string prefix = std::to_string(i) + ".";
    for (const auto& [entry, tensor] : slot.named_state()) state[prefix + entry] = *tensor;
    if (slot.master.is_split()) state[prefix + "master"] = slot.master.read(elements);
    state[prefix + "steps"] = full({}, static_cast<double>(slot.steps), DType::i64);
  }
  return state;
}

void Optimizer::check_state(const StateDict& state) {
  const StateDict mine = state_dict();
  const std::vector<Slot*> slots = all_slots();
  // Of the whole tensor, whatever part of it this process has.
  const auto shape_of = [&](const std::string& entry, const Tensor& tensor) {
    if (options_.parts.empty() || entry.ends_with("steps")) return tensor.shape();
    const Tensor& parameter = slots[std::stoul(entry)]->parameter;
    const int64_t elements = state_elements(entry, parameter.numel());
    return elements == parameter.numel() ? parameter.shape() : Shape{elements};
  };
  for (const auto& [entry, tensor] : mine) {
    const auto found = state.find(entry);
    const Shape expected = shape_of(entry, tensor);
    if (found == state.end() || found->second.shape() != expected) {
      fail(name(),
           {.argument = "state " + entry,
            .expected = to_string(expected) + " " + std::string(binade::name(tensor.dtype())) +
                        " " + to_string(tensor.device()),
            .found = found == state.end() ? "nothing" : describe(found->second),
            .hint = "the state belongs to another model or optimizer"});
    }
    if (entry.ends_with("steps") && !(found->second.item() >= 0)) {
      fail(name(), {.argument = "state " + entry,
                    .expected = "at least 0",
                    .found = fmt::format("{}", found->second.item())});
    }
  }
  if (state.size() != mine.size()) {
    fail(name(), {.argument = "state",
                  .expected = std::to_string(mine.size()) + " entries",
                  .found = std::to_string(state.size())});
  }
}

void Optimizer::load_state_dict(const StateDict& state) {
  check_state(state);
  const NoGrad no_grad;
  counts_.set_started(static_cast<int64_t>(state.at("steps").item()));
  const std::vector<Slot*> slots = all_slots();
  for (size_t i = 0; i < slots.size(); ++i) slots[i]->load(state, std::to_string(i) + ".");
}

}  // namespace binade::optim
