#include "binade/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/autograd/grad_mode.h"
#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/transfer.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::optim {
namespace {

constexpr int64_t hyper_size = 8;  // of UpdateControl::hyper

}  // namespace

Shape Optimizer::part_shape(const Slot& slot) const {
  return options_.parts.empty() ? slot.parameter.shape() : Shape{slot.part.count};
}

Tensor Optimizer::part_of(const Slot& slot, const Tensor& whole) const {
  if (options_.parts.empty()) return whole;
  return whole.strided({slot.part.count}, {1}, whole.offset() + slot.part.begin);
}

Tensor Optimizer::part_of(const Slot& slot, std::string_view entry, const Tensor& whole) const {
  if (options_.parts.empty()) return whole;
  return whole.strided({state_elements(entry, slot.part.count)}, {1},
                       whole.offset() + state_elements(entry, slot.part.begin));
}

Tensor Optimizer::gradient_of(const Slot& slot) {
  return slot.gradient.defined() ? slot.gradient : slot.parameter.grad();
}

void Optimizer::use_gradients(std::vector<Tensor> gradients) {
  const std::vector<Slot*> slots = all_slots();
  if (options_.parts.empty() || gradients.size() != slots.size()) {
    fail(name_, {.argument = "gradients",
                 .expected = "one for each part of " + std::to_string(options_.parts.size()),
                 .found = std::to_string(gradients.size())});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (gradients[i].numel() != slots[i]->part.count || gradients[i].dtype() != DType::f32)
      fail(name_, {.argument = "gradients",
                   .expected = "f32 [" + std::to_string(slots[i]->part.count) + "]",
                   .found = describe(gradients[i])});
    slots[i]->gradient = std::move(gradients[i]);
  }
}

void Optimizer::use_shards(std::vector<Tensor> shards) {
  const std::vector<Slot*> slots = all_slots();
  if (options_.parts.empty() || shards.size() != slots.size()) {
    fail(name_, {.argument = "shards",
                 .expected = "one for each part of " + std::to_string(options_.parts.size()),
                 .found = std::to_string(shards.size())});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (shards[i].defined() && (shards[i].numel() != slots[i]->part.count ||
                                shards[i].dtype() != slots[i]->parameter.dtype()))
      fail(name_, {.argument = "shards",
                   .expected = std::to_string(slots[i]->part.count) + " elements of " +
                               describe(slots[i]->parameter),
                   .found = describe(shards[i])});
    slots[i]->shard = std::move(shards[i]);
  }
}

void Optimizer::add_group(const std::vector<Tensor>& parameters, double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) {
    fail(name_, {.argument = "lr",
                 .expected = "a finite number of at least 0",
                 .found = fmt::format("{}", lr)});
  }
  if (parameters.empty())
    fail(name_, {.argument = "parameters", .expected = "at least one", .found = "none"});
  Group group;
  group.lr = lr;
  group.lr_ratio = groups_.empty() || groups_[0].lr == 0 ? 1 : lr / groups_[0].lr;
  std::vector<Tensor> known = this->parameters();
  const memory::CategoryGuard category(memory::Category::optimizer);
  for (const Tensor& parameter : parameters) {
    if (!parameter.requires_grad() || !parameter.is_leaf()) {
      fail(name_, {.argument = "parameters",
                   .expected = "leaves that require a gradient",
                   .found = describe(parameter)});
    }
    for (const Tensor& other : known) {
      if (other.same_as(parameter))
        fail(name_, {.argument = "parameters",
                     .expected = "each parameter once",
                     .found = describe(parameter) + " twice"});
    }
    known.push_back(parameter);
    Slot slot;
    slot.parameter = parameter;
    slot.part = {0, parameter.numel()};
    if (!options_.parts.empty()) slot.part = checked_part(known.size() - 1, parameter);
    const bool low = parameter.dtype() == DType::f16 || parameter.dtype() == DType::bf16;
    if (parameter.dtype() == DType::bf16 && options_.masters && options_.split_masters) {
      slot.rest = new_state(parameter, Shape{2 * slot.part.count}, DType::u8);
    } else if (low && options_.masters) {
      slot.master = Tensor::empty(part_shape(slot), DType::f32, parameter.device());
      backend::of(parameter).elementwise.copy(part_of(slot, parameter), slot.master);
      slot.version = parameter.version();
    }
    group.slots.push_back(std::move(slot));
  }
  groups_.push_back(std::move(group));
  for (Slot& slot : groups_.back().slots) allocate(groups_.size() - 1, slot);
}

Part Optimizer::checked_part(size_t index, const Tensor& parameter) const {
  const Part part = index < options_.parts.size() ? options_.parts[index] : Part{0, -1};
  const bool fits = part.begin >= 0 && part.count >= 0 &&
                    part.begin + part.count <= parameter.numel() && parameter.is_dense();
  if (!is_elementwise()) {
    fail(name_, {.argument = "parts",
                 .expected = "an elementwise update",
                 .found = std::string(name_),
                 .hint = "SGD, Adam, AdamW, Lion, RMSprop and Adagrad have one"});
  }
  if (!fits || options_.stochastic_rounding) {
    fail(name_, {.argument = "parts",
                 .expected = "elements of " + describe(parameter) + ", without stochastic rounding",
                 .found = std::to_string(part.begin) + " and " + std::to_string(part.count) +
                          " more" + (options_.stochastic_rounding ? ", with it" : "")});
  }
  return part;
}

Tensor Optimizer::new_state(const Slot& slot, DType dtype) const {
  return new_state(slot.parameter, part_shape(slot), dtype);
}

Tensor Optimizer::new_state(const Tensor& parameter, DType dtype) const {
  return new_state(parameter, parameter.shape(), dtype);
}

Tensor Optimizer::new_state(const Tensor& parameter, const Shape& shape, DType dtype) const {
  const memory::CategoryGuard category(memory::Category::optimizer);
  Tensor state = Tensor::empty(shape, dtype, parameter.device());
  backend::of(state).elementwise.fill(state, 0);
  return state;
}

void Optimizer::refuse_gpu(const Tensor& parameter, std::string_view option) const {
  if (!parameter.device().is_cuda()) return;
  const std::string what(option);
  fail(name_, {.argument = what.empty() ? "parameters" : what,
               .expected = "parameters on the CPU",
               .found = describe(parameter),
               .hint = what.empty() ? "SGD, Adam and AdamW run on a GPU"
                                    : "on a GPU, leave this option out"});
}

void Optimizer::refuse_stochastic_rounding() const {
  if (!options_.stochastic_rounding) return;
  fail(name_, {.argument = "master.stochastic_rounding", .expected = "false", .found = "true"});
}

void Optimizer::require(const char* optimizer, std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) {
    if (range.value >= range.low && range.value < range.high) continue;  // false for NaN
    const auto text = [](double x) { return fmt::format("{:g}", x); };
    fail(optimizer,
         {.argument = range.argument,
          .expected = std::isinf(range.high) ? "a finite number of at least " + text(range.low)
                                             : text(range.low) + " up to " + text(range.high),
          .found = text(range.value)});
  }
}

void Optimizer::set_momentum(double) {
  fail(name_, {.argument = "momentum",
               .expected = "an optimizer with momentum",
               .found = std::string(name_)});
}

Tensor Optimizer::gradient_of(const Slot& slot, const StepControl& control) {
  const Tensor gradient = cast(slot.parameter.grad(), accumulation_type(slot.parameter.dtype()));
  return control.gradient_factor.defined() ? gradient * reshape(control.gradient_factor, {})
                                           : gradient;
}

Tensor Optimizer::master_in(const Slot& slot) {
  if (slot.rest.defined()) return joined(slot.parameter, slot);
  return slot.master.defined() ? slot.master : slot.parameter;
}

void Optimizer::write_master(const Slot& slot, const Tensor& value) {
  if (slot.rest.defined())
    return backend::of(value).optimizer.split_master(contiguous(value), slot.parameter, slot.rest);
  const auto& kernels = backend::of(value).elementwise;
  kernels.copy(value, master_in(slot));
  if (slot.master.defined()) kernels.copy(slot.master, slot.parameter);
}

std::map<int64_t, Optimizer::Peers> Optimizer::by_count(std::span<Slot*> slots) const {
  std::map<int64_t, Peers> result;
  for (const Slot* slot : slots) {
    if (slot->part.count == 0 && !options_.parts.empty()) continue;  // others update all of it
    Peers& peers = result[slot->steps];
    const bool has_master = slot->master.defined();
    const Tensor parameter = own_elements(*slot);
    peers.items.push_back({.master = has_master ? slot->master : parameter,
                           .rest = slot->rest,
                           .gradient = gradient_of(*slot),
                           .first = slot->first,
                           .second = slot->second,
                           .third = slot->third,
                           .first_scale = slot->first_scale,
                           .second_scale = slot->second_scale,
                           .copy = has_master ? TensorView(parameter) : TensorView(),
                           .skipped = slot->skipped});
    if (capturing_) peers.hyper = slot->hyper;
  }
  return result;
}

backend::UpdateControl Optimizer::control_of(const StepControl& control, const Peers& peers) const {
  backend::UpdateControl result{
      .gradient_factor = control.gradient_factor, .skip = control.skip, .hyper = peers.hyper};
  if (skipped_.defined()) result.skipped_steps = skipped_.strided({1}, {1}, 0);
  return result;
}

backend::RatesAfterSkips Optimizer::after_skips(size_t group) const {
  backend::RatesAfterSkips result{.known = static_cast<double>(known_skipped_)};
  for (size_t i = 0; i < std::size(result.lr); ++i) {
    result.lr[i] =
        i < after_skips_.size() ? after_skips_[i] * groups_[group].lr_ratio : groups_[group].lr;
  }
  return result;
}

std::array<double, 4> Optimizer::hyper_at(size_t group, int64_t count) const {
  return {lr(group), static_cast<double>(count), 1, 1};
}

void Optimizer::refresh_master(Slot& slot) const {
  if (!slot.master.defined() || slot.parameter.version() == slot.version) return;
  const Tensor parameter = own_elements(slot);
  // Elements that are still the rounded master weight keep its lower bits, as when a model and its
  // optimizer are loaded one after the other.
  const auto& kernels = backend::of(parameter).elementwise;
  const Tensor rounded = Tensor::empty_like(parameter), wide = Tensor::empty_like(slot.master),
               is_same = Tensor::empty(parameter.shape(), DType::boolean, parameter.device());
  kernels.copy(slot.master, rounded);
  kernels.copy(parameter, wide);
  kernels.binary(backend::Binary::equal, parameter, rounded, is_same);
  kernels.where(is_same, slot.master, wide, slot.master);
  slot.master.bump_version();
  slot.version = slot.parameter.version();
}

void Optimizer::count_step() {
  ++started_;
  for (Slot* slot : all_slots()) {
    if (!has_gradient(*slot)) continue;
    refresh_master(*slot);
    ++slot->steps;
    slot->parameter.bump_version();
    if (slot->master.defined()) slot->master.bump_version();
    slot->version = slot->parameter.version();
  }
}

void Optimizer::step(const StepControl& control) {
  // If the flag can be read without waiting, a skipped step ends here and is not counted.
  if (control.skip.defined() && backend::capabilities(control.skip.device()).is_host_readable &&
      control.skip.item() != 0)
    return;
  const NoGrad no_grad;
  if (!capturing_) count_step();
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::vector<Slot*> ready;
    for (Slot& slot : groups_[i].slots) {
      if (has_gradient(slot)) ready.push_back(&slot);
    }
    if (!ready.empty()) update(i, ready, control);
  }
  if (control.skip.defined() && backend::capabilities(control.skip.device()).is_asynchronous)
    count_skipped(control.skip);
}

std::vector<Optimizer::Slot*> Optimizer::all_slots() {
  std::vector<Slot*> slots;
  for (Group& group : groups_) {
    for (Slot& slot : group.slots) slots.push_back(&slot);
  }
  return slots;
}

void Optimizer::make_skipped(Device device) {
  if (skipped_.defined()) return;
  const memory::CategoryGuard category(memory::Category::optimizer);
  const std::vector<Slot*> slots = all_slots();
  skipped_ = zeros({static_cast<int64_t>(slots.size()) + 1}, DType::f32, device);
  for (size_t i = 0; i < slots.size(); ++i)
    slots[i]->skipped = skipped_.strided({1}, {1}, static_cast<int64_t>(i) + 1);
}

void Optimizer::count_skipped(const Tensor& skip) {
  make_skipped(skip.device());
  const std::vector<Slot*> slots = all_slots();
  const auto counts = [](const Slot* slot) { return has_gradient(*slot); };
  const auto add = [&](const Tensor& count) {
    backend::of(skip).elementwise.binary(backend::Binary::add, count,
                                         TensorView(skip).expanded(count.shape()), count);
  };
  if (std::all_of(slots.begin(), slots.end(), counts)) return add(skipped_);
  add(skipped_.strided({1}, {1}, 0));
  for (const Slot* slot : slots) {
    if (counts(slot)) add(slot->skipped);
  }
}

Optimizer::Capture::Capture(Optimizer& optimizer) : optimizer_(optimizer) {
  if (!optimizer.can_capture()) {
    fail(optimizer.name_, {.argument = "capture",
                           .expected = "SGD, Adam or AdamW",
                           .found = std::string(optimizer.name_)});
  }
  if (optimizer.options_.stochastic_rounding) {
    fail(optimizer.name_, {.argument = "capture",
                           .expected = "an update without random numbers",
                           .found = "stochastic rounding"});
  }
  const std::vector<Slot*> slots = optimizer.all_slots();
  const Device device = slots[0]->parameter.device();
  if (backend::capabilities(device).is_asynchronous) optimizer.make_skipped(device);
  if (!optimizer.hyper_.defined()) {
    const memory::CategoryGuard category(memory::Category::optimizer);
    const auto count = static_cast<int64_t>(slots.size());
    optimizer.hyper_ = zeros({count, hyper_size}, DType::f64, device);
    optimizer.hyper_host_ = zeros({count, hyper_size}, DType::f64);
    for (int64_t i = 0; i < count; ++i)
      slots[static_cast<size_t>(i)]->hyper =
          optimizer.hyper_.strided({hyper_size}, {1}, hyper_size * i);
  }
  optimizer.capturing_ = true;
}

Optimizer::Capture::~Capture() { optimizer_.capturing_ = false; }

void Optimizer::prepare_replay() {
  count_step();
  auto* next = hyper_host_.mutable_data<double>();
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (const Slot& slot : groups_[i].slots) {
      const std::array<double, 4> values = hyper_at(i, slot.steps);
      const backend::RatesAfterSkips after = after_skips(i);
      next = std::copy(values.begin(), values.end(), next);
      next = std::copy(std::begin(after.lr), std::end(after.lr), next);
      *next++ = after.known;
    }
  }
  backend::transfer(hyper_host_, hyper_);
}

int64_t Optimizer::steps() const {
  return started_ -
         (skipped_.defined() ? static_cast<int64_t>(skipped_.strided({}, {}, 0).item()) : 0);
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
    for (const Slot& slot : group.slots) result.push_back(gradient_of(slot));
  }
  return result;
}

void Optimizer::set_lr_after(int64_t updates, std::span<const double> rates) {
  constexpr size_t most = 1 + backend::RatesAfterSkips::capacity;
  if (rates.empty() || rates.size() > most) {
    fail(name_, {.argument = "rates",
                 .expected = "1 to " + std::to_string(most),
                 .found = std::to_string(rates.size())});
  }
  // Unless the device counts skipped steps, the host knows them all.
  if (!skipped_.defined()) {
    const auto last = static_cast<int64_t>(rates.size()) - 1;
    const int64_t index = std::clamp<int64_t>(updates - started_, 0, last);
    return set_lr(rates[static_cast<size_t>(index)]);
  }
  set_lr(rates[0]);
  after_skips_.assign(rates.begin() + 1, rates.end());
  known_skipped_ = started_ - updates;
}

void Optimizer::set_lr(double lr) {
  for (size_t i = 0; i < groups_.size(); ++i) set_group_lr(i, lr * groups_[i].lr_ratio);
}

void Optimizer::set_group_lr(size_t group, double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) {
    fail(name_, {.argument = "lr",
                 .expected = "a finite number of at least 0",
                 .found = fmt::format("{}", lr)});
  }
  groups_[checked(group)].lr = lr;
  after_skips_.clear();
}

size_t Optimizer::checked(size_t group) const {
  if (group < groups_.size()) return group;
  fail(name_, {.argument = "group",
               .expected = "fewer than " + std::to_string(groups_.size()),
               .found = std::to_string(group)});
}

}  // namespace binade::optim
