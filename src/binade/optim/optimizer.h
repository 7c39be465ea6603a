#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/amp/steppable.h"
#include "binade/base/function_ref.h"
#include "binade/optim/captured_hyper.h"
#include "binade/optim/catalog.h"
#include "binade/optim/slot.h"
#include "binade/optim/step_counts.h"

namespace binade::backend {
struct UpdateRule;
}

namespace binade::optim {

using amp::StepControl;

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
  // Sets the momentum of every group, or beta1 of those that have betas. Fails if the optimizer has
  // none. A step captured before keeps the momentum it had.
  virtual void set_momentum(double momentum);
  // Sets the learning rate of the next step by the updates applied before it: rates[i] if these are
  // `updates` - i. A GPU chooses by its own count of skipped steps, which the host may not know
  // yet.
  void set_lr_after(int64_t updates, std::span<const double> rates);
  // Updates applied so far. Waits for a GPU if steps may have been skipped there.
  int64_t steps() const { return counts_.applied(); }
  // "AdamW".
  std::string_view name() const { return description_.name; }

  // For its lifetime, step() is captured in a graph (backend/graph.h): it counts nothing, and its
  // kernels read learning rates and counts from device memory. For optimizers that run on GPUs.
  // Refused with stochastic rounding, whose draws the host keys by the step.
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
  // The elements of `parameter`, in its type, that this process updates.
  Tensor own_elements(const Tensor& parameter) { return slot_of(parameter).own_elements(); }
  // Writes the master weight of `parameter`: of `whole`, which is shaped as the parameter, the part
  // that this process updates. If the two share bits, all of the parameter is written, too, so that
  // it is the same in every process. For weights that are known more exactly than in the
  // parameter's type.
  void set_master(const Tensor& parameter, const Tensor& whole);

 protected:
  Optimizer(Kind kind, MasterOptions options)
      : description_(describe(kind)), options_(std::move(options)) {}

  // The master weights' options of the first group. Fails if there is none.
  template <class Group>
  static const MasterOptions& master_options_of(Kind kind, const std::vector<Group>& groups) {
    if (groups.empty()) fail_without_groups(kind);
    return groups[0].options.master;
  }
  void add_group(const std::vector<Tensor>& parameters, double lr);
  // For optimizers that round to nearest only.
  void refuse_stochastic_rounding() const;
  // Fails if the parameter is on a GPU, for an option without a kernel there.
  void refuse_gpu(const Tensor& parameter, std::string_view option) const;
  // Fails if an option is changed that needs state which the group does not have.
  void require_kept(std::string_view option, bool is_kept) const;
  void require_moments(DType found, std::initializer_list<DType> known) const;
  const MasterOptions& options() const { return options_; }
  const StepCounts& counts() const { return counts_; }

  // Updates the slots of one group, each with its gradient.
  virtual void update(size_t group, std::span<Slot*> slots, const StepControl& control) = 0;
  // Makes the state of a slot: by default the tensors that the catalog describes.
  virtual void allocate(size_t group, Slot& slot);
  // These tensors, zeroed, as far as the group keeps them.
  void allocate_state(std::span<const StateTensor> state, size_t group, Slot& slot) const;
  virtual DType moments_type(size_t, const Tensor&) const { return DType::f32; }
  virtual bool keeps(size_t, std::string_view) const { return true; }
  // The first of UpdateControl::hyper for a group's parameters at their update `count`.
  virtual std::array<double, 4> hyper_at(size_t group, int64_t count) const;
  // What of a group's parameters processes may share.
  virtual Sharing sharing(size_t) const { return description_.sharing; }

  // Updates slots by a kernel: rule_at(count) of those with `count` updates, including this one;
  // nearly always of one count. Without `first` if it rests.
  void run_kernel(std::span<Slot*> slots, const StepControl& control,
                  FunctionRef<backend::UpdateRule(int64_t count)> rule_at, bool has_first = true);
  backend::RatesAfterSkips rates_after_skips(size_t group) const;
  backend::UpdateControl update_control(const StepControl& control, const Slot& slot) const;

 private:
  [[noreturn]] static void fail_without_groups(Kind kind);

  struct Group {
    std::vector<Slot> slots;
    double lr = 0;
    double lr_ratio = 1;  // to the first group's
  };

  // The slot of a parameter, or a failure.
  Slot& slot_of(const Tensor& parameter);
  Slot new_slot(const Tensor& parameter, size_t index) const;
  void require_same_place(const Slot& slot) const;
  // The part of parameter `index` by MasterOptions::parts, or a failure.
  Part checked_part(size_t index, const Tensor& parameter) const;
  void check_state(const StateDict& state);
  // A group's index, or a failure.
  size_t checked(size_t group) const;
  std::vector<Slot*> all_slots();

  const Description& description_;
  MasterOptions options_;
  std::vector<Group> groups_;
  StepCounts counts_;
  CapturedHyper captured_;
};

// A zeroed tensor of an optimizer's state on the parameter's device.
Tensor new_state(const Tensor& parameter, const Shape& shape, DType dtype);
// The kernels' view of a slot.
backend::UpdateItem update_item(const Slot& slot);

}  // namespace binade::optim
