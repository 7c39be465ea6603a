#include "binade/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/update_rules.h"
#include "binade/base/text.h"

namespace binade::optim {
namespace {

void check_rate(std::string_view optimizer, double lr) {
  if (lr >= 0 && std::isfinite(lr)) return;
  fail(optimizer, {.argument = "lr",
                   .expected = "a finite number of at least 0",
                   .found = fmt::format("{}", lr)});
}

bool shares_elements(const Description& one) { return one.sharing == Sharing::elements; }
bool runs_on_gpu(const Description& one) { return one.runs_on_gpu; }

}  // namespace

Tensor new_state(const Tensor& parameter, const Shape& shape, DType dtype) {
  const memory::CategoryGuard category(memory::Category::optimizer);
  Tensor state = Tensor::empty(shape, dtype, parameter.device());
  backend::of(state).elementwise.fill(state, 0);
  return state;
}

backend::UpdateItem update_item(const Slot& slot) {
  const Tensor elements = slot.own_elements();
  const bool has_master = slot.master.is_f32();
  return {.master = has_master ? slot.master.f32() : elements,
          .rest = slot.master.rest(),
          .gradient = slot.used_gradient(),
          .first = slot.first,
          .second = slot.second,
          .third = slot.third,
          .first_scale = slot.first_scale,
          .second_scale = slot.second_scale,
          .copy = has_master ? TensorView(elements) : TensorView(),
          .skipped = slot.skipped};
}

void Optimizer::use_gradients(std::vector<Tensor> gradients) {
  const std::vector<Slot*> slots = all_slots();
  if (options_.parts.empty() || gradients.size() != slots.size()) {
    fail(name(), {.argument = "gradients",
                  .expected = "one for each part of " + std::to_string(options_.parts.size()),
                  .found = std::to_string(gradients.size())});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (gradients[i].numel() != slots[i]->part.count || gradients[i].dtype() != DType::f32)
      fail(name(), {.argument = "gradients",
                    .expected = "f32 [" + std::to_string(slots[i]->part.count) + "]",
                    .found = describe(gradients[i])});
    slots[i]->gradient = std::move(gradients[i]);
  }
}

void Optimizer::use_shards(std::vector<Tensor> shards) {
  const std::vector<Slot*> slots = all_slots();
  if (options_.parts.empty() || shards.size() != slots.size()) {
    fail(name(), {.argument = "shards",
                  .expected = "one for each part of " + std::to_string(options_.parts.size()),
                  .found = std::to_string(shards.size())});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (shards[i].defined() && (shards[i].numel() != slots[i]->part.count ||
                                shards[i].dtype() != slots[i]->parameter.dtype()))
      fail(name(), {.argument = "shards",
                    .expected = std::to_string(slots[i]->part.count) + " elements of " +
                                describe(slots[i]->parameter),
                    .found = describe(shards[i])});
    slots[i]->shard = std::move(shards[i]);
  }
}

void Optimizer::add_group(const std::vector<Tensor>& parameters, double lr) {
  check_rate(name(), lr);
  if (parameters.empty())
    fail(name(), {.argument = "parameters", .expected = "at least one", .found = "none"});
  std::vector<Tensor> known = this->parameters();
  Group group;
  group.lr = lr;
  group.lr_ratio = groups_.empty() || groups_[0].lr == 0 ? 1 : lr / groups_[0].lr;
  for (const Tensor& parameter : parameters) {
    if (!parameter.requires_grad() || !parameter.is_leaf()) {
      fail(name(), {.argument = "parameters",
                    .expected = "leaves that require a gradient",
                    .found = describe(parameter)});
    }
    for (const Tensor& other : known) {
      if (other.same_as(parameter))
        fail(name(), {.argument = "parameters",
                      .expected = "each parameter once",
                      .found = describe(parameter) + " twice"});
    }
    group.slots.push_back(new_slot(parameter, known.size()));
    known.push_back(parameter);
  }
  groups_.push_back(std::move(group));
  for (Slot& slot : groups_.back().slots) allocate(groups_.size() - 1, slot);
}

Slot Optimizer::new_slot(const Tensor& parameter, size_t index) const {
  if (parameter.device().is_cuda() && !description_.runs_on_gpu) {
    fail(name(), {.argument = "parameters",
                  .expected = "parameters on the CPU",
                  .found = describe(parameter),
                  .hint = names_of(runs_on_gpu) + " run on a GPU"});
  }
  Slot slot;
  slot.parameter = parameter;
  slot.dtype = parameter.dtype();
  slot.device = parameter.device();
  slot.is_shared = !options_.parts.empty();
  slot.part = slot.is_shared ? checked_part(index, parameter) : Part{0, parameter.numel()};
  const memory::CategoryGuard category(memory::Category::optimizer);
  slot.master = MasterWeight(parameter, slot.part_of(parameter), options_);
  return slot;
}

Part Optimizer::checked_part(size_t index, const Tensor& parameter) const {
  const Part part = index < options_.parts.size() ? options_.parts[index] : Part{0, -1};
  const Sharing shared = sharing(groups_.size());
  const bool is_allowed =
      shared == Sharing::elements || part.count == 0 || part.count == parameter.numel();
  const bool fits = part.begin >= 0 && part.count >= 0 && is_allowed &&
                    part.begin + part.count <= parameter.numel() && parameter.is_dense();
  if (shared == Sharing::none) {
    fail(name(), {.argument = "parts",
                  .expected = "an elementwise update",
                  .found = std::string(name()),
                  .hint = names_of(shares_elements) + " have one"});
  }
  if (!fits || options_.stochastic_rounding) {
    fail(name(), {.argument = "parts",
                  .expected = (shared == Sharing::elements ? "elements" : "all or none") +
                              (" of " + describe(parameter)) + ", without stochastic rounding",
                  .found = std::to_string(part.begin) + " and " + std::to_string(part.count) +
                           " more" + (options_.stochastic_rounding ? ", with it" : "")});
  }
  return part;
}

void Optimizer::allocate(size_t group, Slot& slot) {
  allocate_state(description_.state, group, slot);
}

void Optimizer::allocate_state(std::span<const StateTensor> state, size_t group, Slot& slot) const {
  const Tensor& parameter = slot.parameter;
  for (const StateTensor& one : state) {
    if (!keeps(group, one.name)) continue;
    const bool has_type = one.type == StateTensor::Type::moments;
    const DType type = has_type ? moments_type(group, parameter) : DType::f32;
    slot.state(one.name) = new_state(parameter, slot.part_shape(),
                                     parameter.dtype() == DType::f64 ? DType::f64 : type);
  }
}

void Optimizer::fail_without_groups(Kind kind) {
  fail(describe(kind).name, {.argument = "groups", .expected = "at least one", .found = "none"});
}

void Optimizer::refuse_gpu(const Tensor& parameter, std::string_view option) const {
  if (!parameter.device().is_cuda()) return;
  fail(name(), {.argument = std::string(option),
                .expected = "parameters on the CPU",
                .found = describe(parameter),
                .hint = "on a GPU, leave this option out"});
}

void Optimizer::refuse_stochastic_rounding() const {
  if (!options_.stochastic_rounding) return;
  fail(name(), {.argument = "master.stochastic_rounding", .expected = "false", .found = "true"});
}

void Optimizer::require_kept(std::string_view option, bool is_kept) const {
  if (is_kept) return;
  fail(name(), {.argument = std::string(option),
                .expected = "the value that the group was made with",
                .found = "another one, which needs other state",
                .hint = "make a new optimizer"});
}

void Optimizer::require_moments(DType found, std::initializer_list<DType> known) const {
  if (std::find(known.begin(), known.end(), found) != known.end()) return;
  std::vector<std::string> names;
  for (const DType one : known) names.emplace_back(binade::name(one));
  fail(name(), {.argument = "moments",
                .expected = listed(names, "or"),
                .found = std::string(binade::name(found))});
}

void Optimizer::set_momentum(double) {
  fail(name(),
       {.argument = "momentum",
        .expected = "an optimizer with momentum",
        .found = std::string(name()),
        .hint = names_of([](const Description& one) { return one.has_momentum; }) + " have one"});
}

void Optimizer::run_kernel(std::span<Slot*> slots, const StepControl& control,
                           FunctionRef<backend::UpdateRule(int64_t)> rule_at, bool has_first) {
  struct Peers {
    std::vector<backend::UpdateItem> items;
    const Slot* one = nullptr;
  };
  std::map<int64_t, Peers> by_count;
  for (const Slot* slot : slots) {
    if (slot->is_elsewhere()) continue;
    Peers& peers = by_count[slot->steps];
    peers.items.push_back(update_item(*slot));
    if (!has_first) peers.items.back().first = {};
    peers.one = slot;
  }
  for (const auto& [count, peers] : by_count)
    backend::of(slots[0]->parameter)
        .optimizer.update(peers.items, rule_at(count), update_control(control, *peers.one));
}

backend::UpdateControl Optimizer::update_control(const StepControl& control,
                                                 const Slot& slot) const {
  backend::UpdateControl result{.gradient_factor = control.gradient_factor, .skip = control.skip};
  if (captured_.is_capturing()) result.hyper = slot.hyper;
  result.skipped_steps = counts_.skipped_steps();
  return result;
}

backend::RatesAfterSkips Optimizer::rates_after_skips(size_t group) const {
  return counts_.rates_after_skips(groups_[group].lr, groups_[group].lr_ratio);
}

std::array<double, 4> Optimizer::hyper_at(size_t group, int64_t count) const {
  return {lr(group), static_cast<double>(count), 1, 1};
}

// The state was made for the type and the device that the parameter had.
void Optimizer::require_same_place(const Slot& slot) const {
  if (slot.parameter.dtype() == slot.dtype && slot.parameter.device() == slot.device) return;
  fail(name(), {.argument = "parameters",
                .expected = std::string(binade::name(slot.dtype)) + " on " +
                            to_string(slot.device) + ", as when the optimizer was made",
                .found = describe(slot.parameter),
                .hint = "make the optimizer after to()"});
}

void Optimizer::step(const StepControl& control) {
  // If the flag can be read without waiting, a skipped step ends here and is not counted.
  if (control.skip.defined() && backend::capabilities(control.skip.device()).is_host_readable &&
      control.skip.item() != 0)
    return;
  const NoGrad no_grad;
  const std::vector<Slot*> slots = all_slots();
  if (!captured_.is_capturing()) counts_.count_step(slots);
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::vector<Slot*> ready;
    for (Slot& slot : groups_[i].slots) {
      if (!slot.has_gradient()) continue;
      require_same_place(slot);
      ready.push_back(&slot);
    }
    if (!ready.empty()) update(i, ready, control);
  }
  if (control.skip.defined() && backend::capabilities(control.skip.device()).is_asynchronous)
    counts_.count_skipped(control.skip, slots);
}

std::vector<Slot*> Optimizer::all_slots() {
  std::vector<Slot*> slots;
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) slots.push_back(&slot);
  }
  return slots;
}

Optimizer::Capture::Capture(Optimizer& optimizer) : optimizer_(optimizer) {
  if (!optimizer.description_.runs_on_gpu) {
    fail(optimizer.name(), {.argument = "capture",
                            .expected = names_of(runs_on_gpu, "or"),
                            .found = std::string(optimizer.name())});
  }
  if (optimizer.options_.stochastic_rounding) {
    fail(optimizer.name(), {.argument = "capture",
                            .expected = "an update without random numbers",
                            .found = "stochastic rounding"});
  }
  const std::vector<Slot*> slots = optimizer.all_slots();
  const Device device = slots[0]->parameter.device();
  if (backend::capabilities(device).is_asynchronous) optimizer.counts_.make_skipped(device, slots);
  optimizer.captured_.begin(slots);
}

Optimizer::Capture::~Capture() { optimizer_.captured_.end(); }

void Optimizer::prepare_replay() {
  counts_.count_step(all_slots());
  size_t index = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Slot& slot : groups_[i].slots)
      captured_.set(index++, hyper_at(i, slot.steps), rates_after_skips(i));
  }
  captured_.upload();
}

void Optimizer::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.zero_grad();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> result;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) result.push_back(slot.parameter);
  }
  return result;
}

std::vector<Tensor> Optimizer::gradients() const {
  std::vector<Tensor> result;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.slots) result.push_back(slot.used_gradient());
  }
  return result;
}

void Optimizer::set_lr_after(int64_t updates, std::span<const double> rates) {
  constexpr size_t most = 1 + backend::RatesAfterSkips::capacity;
  if (rates.empty() || rates.size() > most) {
    fail(name(), {.argument = "rates",
                  .expected = "1 to " + std::to_string(most),
                  .found = std::to_string(rates.size())});
  }
  // Unless the device counts skipped steps, the host knows them all.
  if (!counts_.are_skips_counted()) {
    const auto last = static_cast<int64_t>(rates.size()) - 1;
    const int64_t index = std::clamp<int64_t>(updates - counts_.started(), 0, last);
    return set_lr(rates[static_cast<size_t>(index)]);
  }
  set_lr(rates[0]);
  counts_.set_rates_after_skips(updates, rates.subspan(1));
}

void Optimizer::set_lr(double lr) {
  for (size_t i = 0; i < groups_.size(); ++i) set_group_lr(i, lr * groups_[i].lr_ratio);
}

void Optimizer::set_group_lr(size_t group, double lr) {
  check_rate(name(), lr);
  groups_[checked(group)].lr = lr;
  counts_.clear_rates();
}

size_t Optimizer::checked(size_t group) const {
  if (group < groups_.size()) return group;
  fail(name(), {.argument = "group",
                .expected = "fewer than " + std::to_string(groups_.size()),
                .found = std::to_string(group)});
}

}  // namespace binade::optim
