#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "binade/amp/steppable.h"
#include "binade/backend/optimizer.h"
#include "binade/nn/module.h"

namespace binade::optim {

// Options every optimizer has.
struct MasterOptions {
  bool masters = true;  // f32 masters for 16-bit parameters
  bool stochastic_rounding =
      false;          // without masters: round 16-bit updates randomly instead of to nearest
  uint64_t seed = 0;  // of stochastic rounding
};

using amp::StepControl;

// Updates parameters from their gradients. Parameters of 16 bits have an f32 master here, which is
// what an update changes; the parameter is rounded from it. Parameters without a gradient are left
// out.
class Optimizer : public amp::Steppable {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update, unless control.skip says otherwise.
  void step(const StepControl& control = {}) override;
  // Forgets gradients; their buffers stay and are overwritten by the next backward.
  void zero_grad();

  std::vector<Tensor> parameters() const override;
  size_t group_count() const { return groups_.size(); }
  double lr(size_t group = 0) const { return groups_[checked(group)].lr; }
  // Sets the learning rate of every group, scaled by the ratio its group started with.
  void set_lr(double lr);
  void set_group_lr(size_t group, double lr);
  // Updates applied so far. Waits for a GPU if steps may have been skipped there.
  int64_t steps() const;
  // "AdamW".
  std::string_view name() const { return name_; }

  // While it lives, step() is part of work that is recorded (backend/graph.h): it counts nothing,
  // and its kernels read learning rates and counts from device memory. Refused with stochastic
  // rounding, whose draws the host keys by the step.
  class Recording {
   public:
    explicit Recording(Optimizer& optimizer);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    Optimizer& optimizer_;
  };
  // The host's part of one run of a recorded step, before it starts: counts it for all parameters
  // with a gradient, and puts this step's numbers where the kernels read them.
  void begin_run();

  // Moments, masters and the step count; loading checks names and shapes.
  StateDict state_dict();
  void load_state_dict(const StateDict& state);

  // The f32 tensor an update of `parameter` changes: its master, or itself.
  Tensor master_of(const Tensor& parameter) const;

 protected:
  struct Slot {
    Tensor parameter;
    Tensor master;  // undefined where the parameter itself is updated
    Tensor first, second;
    int64_t steps = 0;  // updates it has had, the running one included
    Tensor skipped;     // f32 [1] on a GPU that was told it may skip: how many of these it has
    Tensor numbers;     // of a recorded step: f64 [4] as in backend::UpdateControl
  };
  // What one call of a kernel updates: items that have had as many updates.
  struct Peers {
    std::vector<backend::UpdateItem> items;
    Tensor numbers;  // undefined unless a step is being recorded
  };
  struct Group {
    std::vector<Slot> slots;
    double lr = 0;
    double lr_ratio = 1;  // to the first group's
  };

  Optimizer(const char* name, MasterOptions options) : name_(name), options_(options) {}

  void add_group(const std::vector<Tensor>& parameters, double lr);
  // Allocates a zeroed state tensor like the parameter.
  Tensor new_state(const Tensor& parameter, DType dtype) const;
  // Updates the slots of one group, each with its gradient.
  virtual void update(size_t group, std::span<Slot*> slots, const StepControl& control) = 0;
  virtual void allocate(size_t group, Slot& slot) = 0;
  // The numbers of UpdateControl for a group's parameters at their update `count`.
  virtual std::array<double, 4> numbers(size_t group, int64_t count) const;

  // By the count of updates, the running one included; nearly always one entry.
  std::map<int64_t, Peers> by_count(std::span<Slot*> slots) const;
  const MasterOptions& options() const { return options_; }
  // Calls of step() that were not known to be skipped when they were made.
  int64_t started() const { return started_; }

 private:
  // A group's index, or a failure.
  size_t checked(size_t group) const;
  // The host's part of a step: counts it for the slots with a gradient and marks their data
  // changed.
  void count_step();
  // Makes the device count what a step's flag skips: for each slot with a gradient, and in all.
  void count_skipped(const Tensor& skip);
  void make_skipped(Device device);
  // Waits for those counts and takes them off the host's, so that a run goes on as one that was
  // loaded does.
  void forget_skipped();
  std::vector<Slot*> all_slots();

  const char* name_;
  MasterOptions options_;
  std::vector<Group> groups_;
  int64_t started_ = 0;
  Tensor skipped_;  // of them, and of each slot's steps: f32 [1 + slots] on the device
  bool recording_ = false;
  Tensor numbers_;       // f64 [slots, 4] on the device, once a step was recorded
  Tensor numbers_here_;  // the same on the host
};

}  // namespace binade::optim
