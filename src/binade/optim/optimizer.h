#pragma once

#include <array>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/amp/steppable.h"
#include "binade/backend/update.h"
#include "binade/nn/module.h"

namespace binade::optim {

// Elements [begin, begin + count) of a parameter.
struct Part {
  int64_t begin = 0, count = 0;
};

// Options every optimizer has.
struct MasterOptions {
  bool masters = true;  // f32 master weights for 16-bit parameters
  // Stores the master weight of a bf16 parameter as that parameter and 16 bits beside it
  // (formats/split_f32.h): 2 bytes less for each element. Updates and state_dict() are those of f32
  // master weights, but a master weight midway between two bf16 numbers is rounded to the one of
  // larger magnitude, and one whose parameter is written keeps its lower bits: it differs from the
  // written number by at most half a unit in the parameter's last place.
  bool split_masters = false;
  bool stochastic_rounding = false;  // of updated 16-bit parameters without master weights
  uint64_t seed = 0;                 // of stochastic rounding
  // The elements of each parameter, in the order of all groups, that this process updates; others
  // update the rest (ranks/sharded.h). Master weights and moments exist for these alone. Empty:
  // all.
  std::vector<Part> parts = {};
};

using amp::StepControl;

// Elements that an entry of an optimizer's state has for `count` elements of its parameter, counted
// from the parameter's start or from a multiple of formats::dynamic_block: as many, or one per
// block for the scales of 8-bit moments.
int64_t state_elements(std::string_view entry, int64_t count);

// Updates parameters from their gradients. For a 16-bit parameter the update changes an f32 master
// weight, and the parameter is rounded from it; a parameter written in between changes its master
// weight. Parameters without a gradient are not updated.
class Optimizer : public amp::Steppable {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update, unless control.skip is not 0.
  void step(const StepControl& control = {}) override;
  // Drops all gradients and their memory, as PyTorch's zero_grad(set_to_none=True).
  void zero_grad();

  std::vector<Tensor> parameters() const override;
  std::vector<Tensor> gradients() const override;
  // With MasterOptions::parts: gradients of these parts, f32 [count], one for each parameter, that
  // steps use instead of the parameters' own.
  void use_gradients(std::vector<Tensor> gradients);
  // With MasterOptions::parts: the elements of these parts, in the types of the parameters,
  // [count], that steps use instead of the parameters' own, whose memory may be released between
  // uses (ranks/units.h). Undefined: the parameter's own.
  void use_shards(std::vector<Tensor> shards);
  size_t group_count() const { return groups_.size(); }
  double lr(size_t group = 0) const { return groups_[checked(group)].lr; }
  // Sets the learning rate of every group, scaled by the ratio its group started with.
  void set_lr(double lr);
  void set_group_lr(size_t group, double lr);
  // Sets the momentum of every group: SGD's, RMSprop's and Muon's, or beta1 of Adam and Lion. Fails
  // if the optimizer has none. A step captured before keeps the momentum it had.
  virtual void set_momentum(double momentum);
  // Sets the learning rate of the next step by the updates applied before it: rates[i] if these are
  // `updates` - i. A GPU chooses by its own count of skipped steps, which the host may not know
  // yet.
  void set_lr_after(int64_t updates, std::span<const double> rates);
  // Updates applied so far. Waits for a GPU if steps may have been skipped there.
  int64_t steps() const;
  // "AdamW".
  std::string_view name() const { return name_; }

  // For its lifetime, step() is captured in a graph (backend/graph.h): it counts nothing, and its
  // kernels read learning rates and counts from device memory. For SGD, Adam and AdamW. Refused
  // with stochastic rounding, whose draws the host keys by the step.
  class Capture {
   public:
    explicit Capture(Optimizer& optimizer);
    ~Capture();
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    Optimizer& optimizer_;
  };
  // The host's part of a captured step, before each replay: counts the step for all parameters with
  // a gradient and copies its hyperparameters to the device.
  void prepare_replay();

  // Moments, master weights and the step count; loading checks names and shapes. With
  // MasterOptions::parts the state has these parts, [count], but loading takes the whole tensors.
  StateDict state_dict();
  void load_state_dict(const StateDict& state);

  // The f32 tensor that an update of `parameter` changes: its master weight, or itself; of these
  // the part that this process updates. A copy if master weights are split.
  Tensor master_of(const Tensor& parameter);
  // Writes the master weight of `parameter`: of `whole`, which is shaped as the parameter, the part
  // that this process updates. If the two share bits, all of the parameter is written, too, so that
  // it is the same in every process. For weights that are known more exactly than in the
  // parameter's type.
  void set_master(const Tensor& parameter, const Tensor& whole);

 protected:
  struct Slot {
    Tensor parameter;
    Part part;             // of its elements; all, unless this process shares the update
    Tensor gradient;       // of the part; undefined: the parameter's own
    Tensor shard;          // the part's elements; undefined: in the parameter
    Tensor master;         // undefined if the parameter itself is updated
    Tensor rest;           // of a split master weight; see backend::UpdateItem
    uint64_t version = 0;  // of the parameter when it was last rounded from the master weight
    Tensor first, second, third;       // see backend::UpdateItem
    Tensor first_scale, second_scale;  // of 8-bit moments
    int64_t steps = 0;                 // updates so far, including the running one
    Tensor skipped;  // f32 [1], on a GPU that may skip steps: how many of `steps` it skipped
    Tensor hyper;    // of a captured step: f64 [8], see backend::UpdateControl
  };
  // Items with the same number of updates, which one kernel call updates.
  struct Peers {
    std::vector<backend::UpdateItem> items;
    Tensor hyper;  // undefined unless a step is being captured
  };
  struct Group {
    std::vector<Slot> slots;
    double lr = 0;
    double lr_ratio = 1;  // to the first group's
  };

  Optimizer(const char* name, MasterOptions options) : name_(name), options_(std::move(options)) {}

  void add_group(const std::vector<Tensor>& parameters, double lr);
  // Allocates a zeroed state tensor like the slot's part of the parameter, like all of it, or of
  // another shape.
  Tensor new_state(const Slot& slot, DType dtype) const;
  Tensor new_state(const Tensor& parameter, DType dtype) const;
  Tensor new_state(const Tensor& parameter, const Shape& shape, DType dtype) const;
  // Fails if the parameter is on a GPU, for an optimizer or an option without a kernel there.
  void refuse_gpu(const Tensor& parameter, std::string_view option = {}) const;
  // For optimizers that round to nearest only.
  void refuse_stochastic_rounding() const;
  // Fails unless low <= value < high, or value is finite if high is infinite.
  struct Range {
    const char* argument;
    double value;
    double low = 0;
    double high = std::numeric_limits<double>::infinity();
  };
  static void require(const char* optimizer, std::initializer_list<Range> ranges);
  // Updates the slots of one group, each with its gradient.
  virtual void update(size_t group, std::span<Slot*> slots, const StepControl& control) = 0;
  virtual void allocate(size_t group, Slot& slot) = 0;
  // Whether an update of some elements needs no others (but those of an 8-bit block), so that
  // processes may share it.
  virtual bool is_elementwise() const { return false; }
  // Whether update() reads its hyperparameters from UpdateControl::hyper.
  virtual bool can_capture() const { return false; }
  // The first of UpdateControl::hyper for a group's parameters at their update `count`.
  virtual std::array<double, 4> hyper_at(size_t group, int64_t count) const;

  // The slots by their number of updates, including the running one; nearly always one entry.
  std::map<int64_t, Peers> by_count(std::span<Slot*> slots) const;
  backend::UpdateControl control_of(const StepControl& control, const Peers& peers) const;
  backend::RatesAfterSkips after_skips(size_t group) const;
  // For updates by plain ops: the gradient times the control's factor, in the master weight's type.
  static Tensor gradient_of(const Slot& slot, const StepControl& control);
  // The f32 or f64 tensor that such an update starts from, and the write of its result.
  static Tensor master_in(const Slot& slot);
  static void write_master(const Slot& slot, const Tensor& value);
  const MasterOptions& options() const { return options_; }
  // Calls of step() that the host did not know to be skipped.
  int64_t started() const { return started_; }

 private:
  // The tensors of a slot's state with their names.
  static std::vector<std::pair<std::string, Tensor*>> named_state(Slot& slot);
  // The slot of a parameter, or a failure.
  Slot& slot_of(const Tensor& parameter);
  // The f32 master weight of a slot with a rest: its halves, of which `parameter` is one.
  static Tensor joined(const Tensor& parameter, const Slot& slot);
  // The part of `whole`, which is shaped as the slot's parameter.
  Tensor part_of(const Slot& slot, const Tensor& whole) const;
  // The same of an entry of its state.
  Tensor part_of(const Slot& slot, std::string_view entry, const Tensor& whole) const;
  // The elements of the parameter that a step updates.
  Tensor own_elements(const Slot& slot) const {
    return slot.shard.defined() ? slot.shard : part_of(slot, slot.parameter);
  }
  // The shape of a part: the parameter's if it is all of it.
  Shape part_shape(const Slot& slot) const;
  // The part of parameter `index` by MasterOptions::parts, or a failure.
  Part checked_part(size_t index, const Tensor& parameter) const;
  static Tensor gradient_of(const Slot& slot);
  static bool has_gradient(const Slot& slot) { return gradient_of(slot).defined(); }
  // A group's index, or a failure.
  size_t checked(size_t group) const;
  // Makes a master weight follow a parameter that was written since the last step: weights loaded
  // after the optimizer was created, for example. A split one follows by itself.
  void refresh_master(Slot& slot) const;
  // Splits a whole master weight into the parameter and the rest of the slot's part.
  void load_split(Slot& slot, const Tensor& whole) const;
  // Counts a step for the slots with a gradient and marks their data as changed.
  void count_step();
  // Counts, on the device, the steps that the flag skips: for each slot with a gradient, and in
  // all.
  void count_skipped(const Tensor& skip);
  void make_skipped(Device device);
  // Waits for these counts and subtracts them from the host's, so that a run continues exactly as
  // one resumed from its state.
  void forget_skipped();
  std::vector<Slot*> all_slots();

  const char* name_;
  MasterOptions options_;
  std::vector<Group> groups_;
  int64_t started_ = 0;
  // Skipped steps, in all and of each slot: f32 [1 + slots] on the device.
  Tensor skipped_;
  std::vector<double> after_skips_;  // the first group's rates after skips unknown to the host
  int64_t known_skipped_ = 0;        // skips that the host knew of when it set these rates
  bool capturing_ = false;
  Tensor hyper_;       // f64 [slots, 8] on the device, once a step was captured
  Tensor hyper_host_;  // the same on the host
};

}  // namespace binade::optim
