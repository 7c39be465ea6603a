#include "binade/lab/replay/run_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "binade/base/error.h"
#include "binade/data/tokenizer.h"
#include "binade/io/safetensors.h"
#include "binade/lab/replay/capture.h"
#include "binade/lab/replay/replayer.h"
#include "binade/lab/replay/run_diff_causes.h"
#include "binade/ops/create/create.h"
#include "binade/train/checkpoint.h"

namespace binade::lab {
namespace {

using NamedValues = std::vector<std::pair<std::string, Tensor>>;

std::string type_and_shape(const Tensor& x) {
  return fmt::format("{} {}", name(x.dtype()), to_string(x.shape()));
}

Shape unflattened(const Shape& shape, int64_t flat) {
  Shape index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

// Compares bits: NaN equals itself, and 0 is not -0.
std::optional<TensorDifference> compare_tensors(const std::string& name, const Tensor& a,
                                                const Tensor& b) {
  TensorDifference difference{.name = name};
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    difference.a = type_and_shape(a);
    difference.b = type_and_shape(b);
    return difference;
  }
  const auto size = static_cast<size_t>(a.element_size());
  const auto* const x = static_cast<const std::byte*>(a.raw_data());
  const auto* const y = static_cast<const std::byte*>(b.raw_data());
  difference.elements = a.numel();
  int64_t first = -1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(x + at, y + at, size) == 0) continue;
    if (first < 0) first = i;
    ++difference.differing;
  }
  if (first < 0) return {};
  difference.index = unflattened(a.shape(), first);
  difference.value_a = to_vector(a)[static_cast<size_t>(first)];
  difference.value_b = to_vector(b)[static_cast<size_t>(first)];
  return difference;
}

std::optional<TensorDifference> first_difference(const NamedValues& a, const NamedValues& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].first != b[i].first)
      return TensorDifference{.name = a[i].first, .a = a[i].first, .b = b[i].first};
    if (auto found = compare_tensors(a[i].first, a[i].second, b[i].second)) return found;
  }
  if (a.size() == b.size()) return {};
  const bool longer = a.size() > b.size();
  const std::string& extra = (longer ? a : b)[std::min(a.size(), b.size())].first;
  return TensorDifference{
      .name = extra, .a = longer ? extra : "nothing", .b = longer ? "nothing" : extra};
}

NamedValues state_values(const Replayer::State& state) {
  NamedValues values;
  for (const auto& [name, tensor] : state.weights) values.emplace_back("weight/" + name, tensor);
  for (const auto& [name, tensor] : state.trainer) values.emplace_back("state/" + name, tensor);
  return values;
}

// What a run recorded of its states: the links of its log, and the hashes of its checkpoints.
std::map<int64_t, train::StateHash> recorded_states(const RecordedRun& run) {
  std::map<int64_t, train::StateHash> states;
  for (const io::Checkpoint& one : run.checkpoints) {
    if (const auto state = train::read_hash(one.path).state) states[one.step] = *state;
  }
  for (const train::Link& link : run.chain.links) states[link.step] = link.state;
  return states;
}

// One of the two runs, replayed by its own arithmetic.
class Side {
 public:
  explicit Side(const RecordedRun& run) : run_(run), replayer_(run) {}

  const RecordedRun& run() const { return run_; }
  Replayer& replayer() {
    select_arithmetic(run_.config, run_.origin.arithmetic, "diff");
    return replayer_;
  }
  train::StateHash hash() { return replayer().trainer().hash(); }

  // What the step after the state of now computes, and the state after it.
  NamedValues observed_step() {
    Capture capture(-1, {});
    Replayer& replayer = this->replayer();
    {
      const autograd::OpObserverScope observed(&capture);
      replayer.step();
    }
    NamedValues values;
    for (const CapturedTensor& one : capture.tensors()) values.emplace_back(one.name, one.value);
    return values;
  }

 private:
  const RecordedRun& run_;
  Replayer replayer_;
};

class RunComparison {
 public:
  RunComparison(RecordedRun& a, RecordedRun& b) : a_(a), b_(b) {}

  RunDiff compare() {
    for (const RecordedRun* run : {&a_, &b_}) {
      for (const std::string& note : run->notes)
        diff_.notes.push_back(run->folder.string() + ": " + note);
    }
    compare_records();
    if (diff_.equal) check_checkpoints();
    if (diff_.equal) return std::move(diff_);
    try {
      open_data(a_, "diff");
      open_data(b_, "diff");
      if (diff_.causes.empty()) {
        replay();
      } else {
        name_changed_tensor();
      }
    } catch (const Error& error) {
      diff_.notes.push_back(fmt::format(
          "not replayed, so {} not known: {}",
          diff_.is_known() ? "step and tensor are" : "whether they differ is", error.what()));
    }
    if (!diff_.equal && diff_.causes.empty()) add_untried_causes();
    return std::move(diff_);
  }

 private:
  void compare_records() {
    const std::map<int64_t, train::StateHash> others = recorded_states(b_);
    for (const auto& [step, state] : recorded_states(a_)) {
      const auto other = others.find(step);
      if (other == others.end()) continue;
      diff_.parts = train::differing_parts(state, other->second);
      if (!diff_.parts.empty()) {
        diff_.step = step;
        return;
      }
      ++diff_.compared;
      diff_.last_equal = step;
    }
    diff_.equal = diff_.last_equal == end();
    if (!diff_.equal)
      diff_.notes.push_back(fmt::format(
          "the runs have no hashes of the same step after {}: they "
          "are replayed to step {}",
          diff_.last_equal < 0 ? "the start" : fmt::format("step {}", diff_.last_equal), end()));
    if (a_.steps != b_.steps)
      diff_.notes.push_back(
          fmt::format("the runs have {} and {} steps; those after step {} were "
                      "not compared",
                      a_.steps, b_.steps, end()));
  }

  // Equal hashes say nothing of a checkpoint that does not hold what its hash says.
  void check_checkpoints() {
    for (const RecordedRun* run : {&b_, &a_}) {
      for (const io::Checkpoint& one : run->checkpoints) check_checkpoint(*run, one);
    }
  }
  void check_checkpoint(const RecordedRun& run, const io::Checkpoint& checkpoint) {
    const std::string name = "checkpoints/" + checkpoint.path.filename().string();
    try {
      Replayer replayer(run);
      replayer.load(checkpoint);
      const auto& difference = replayer.difference();
      if (!difference) return;
      if (diff_.equal) {
        diff_.equal = false;
        diff_.replayed = true;
        diff_.step = checkpoint.step;
        diff_.parts = difference->parts;
        changed_run_ = &run;
        changed_ = checkpoint;
      }
      diff_.causes.push_back(
          {CauseKind::state,
           fmt::format("{}: {} does not hold the {} whose hash {} has: a fault of the machine, or "
                       "a change of its files",
                       run.folder.string(), name, difference->parts, difference->record),
           true});
    } catch (const Error& error) {
      diff_.notes.push_back(fmt::format("{}: {} was not compared with its hash: {}",
                                        run.folder.string(), name, error.what()));
    }
  }

  // The step whose settings tell the cause.
  int64_t step_of_settings() const { return std::max<int64_t>(diff_.step, 1); }

  // The last step that both runs have: nothing is known of later ones.
  int64_t end() const { return diff_.step >= 0 ? diff_.step : std::min(a_.steps, b_.steps); }

  void name_changed_tensor() {
    a_side_.emplace(a_);
    b_side_.emplace(b_);
    find_changed_tensor(changed_run_ == &a_ ? *a_side_ : *b_side_, changed_);
  }

  // A run that was resumed with other settings does not repeat its steps before. But a checkpoint
  // of these may be left, whose state the other run comes to: then both begin there.
  void begin_at_later_checkpoints() {
    for (const auto& [with, other] : {std::pair(&b_, &a_), std::pair(&a_, &b_)}) {
      std::optional<Replayer> replayer;
      for (const io::Checkpoint& one : with->checkpoints) {
        if (one.step <= diff_.last_equal || one.step >= end()) continue;
        const auto state = train::read_hash(one.path).state;
        if (!state) continue;
        if (!replayer) replayer.emplace(*other);
        select_arithmetic(other->config, other->origin.arithmetic, "diff");
        replayer->go_to(one.step);
        if (replayer->difference() || replayer->trainer().hash() != *state) break;
        diff_.last_equal = one.step;
      }
    }
  }

  void replay() {
    begin_at_later_checkpoints();
    a_side_.emplace(a_);
    b_side_.emplace(b_);
    if (diff_.last_equal < 0) {
      a_side_->replayer().start();
      b_side_->replayer().start();
    } else {
      a_side_->replayer().go_to(diff_.last_equal);
      b_side_->replayer().go_to(diff_.last_equal);
    }
    for (int64_t step = std::max<int64_t>(diff_.last_equal, 0);; ++step) {
      const std::string parts = train::differing_parts(a_side_->hash(), b_side_->hash());
      if (!parts.empty()) return found_at(step, parts);
      if (step >= end()) break;
      before_a_ = a_side_->replayer().save();
      before_b_ = b_side_->replayer().save();
      before_step_ = step;
      a_side_->replayer().step();
      b_side_->replayer().step();
    }
    found_no_difference();
  }

  // Both replays do the same. So a record, or a checkpoint behind it, is not what the run computes.
  void found_no_difference() {
    if (diff_.step < 0) {
      diff_.equal = true;
      diff_.replayed = true;
      diff_.last_equal = end();
      return;
    }
    diff_.replayed = true;
    for (Side* side : {&*a_side_, &*b_side_}) {
      if (const auto& difference = side->replayer().difference())
        note_unrepeated(*side, *difference);
    }
    find_changed_checkpoint();
  }

  // A checkpoint of a state that its run does not have.
  void find_changed_checkpoint() {
    for (Side* side : {&*b_side_, &*a_side_}) {
      for (const io::Checkpoint& one : side->run().checkpoints) {
        if (!diff_.tensor && one.step <= diff_.step) find_changed_tensor(*side, one);
      }
    }
  }

  void find_changed_tensor(Side& side, const io::Checkpoint& checkpoint) {
    Replayer replayer(side.run());
    replayer.load(checkpoint);
    const Replayer::State loaded = replayer.save();
    Side& other = &side == &*a_side_ ? *b_side_ : *a_side_;
    if (other.run().checkpoint_before(checkpoint.step) == nullptr) other.replayer().start();
    other.replayer().go_to(checkpoint.step);
    auto found = first_difference(state_values(other.replayer().save()), state_values(loaded));
    if (!found) return;
    found->name = fmt::format("{} in checkpoint step-{} of {}", found->name, checkpoint.step,
                              side.run().folder.string());
    diff_.tensor = found;
  }

  void found_at(int64_t step, const std::string& parts) {
    diff_.step = step;
    diff_.parts = parts;
    diff_.replayed = true;
    for (Side* side : {&*a_side_, &*b_side_}) {
      const auto& difference = side->replayer().difference();
      if (difference && difference->step <= step) note_unrepeated(*side, *difference);
    }
    if (before_a_ && before_step_ == step - 1) {
      compare_step();
    } else {
      diff_.tensor = first_difference(state_values(a_side_->replayer().save()),
                                      state_values(b_side_->replayer().save()));
    }
    try_causes();
  }

  void note_unrepeated(Side& side, const ReplayDifference& difference) {
    const std::string& base = side.run().config.model.init_from;
    const std::string first =
        difference.step == 0 && !base.empty() ? "other weights in " + base + " than then, " : "";
    diff_.causes.push_back(
        {CauseKind::state,
         fmt::format("{}: its replay does not give the {} that {} records for step {}: {}a fault "
                     "of the machine, or a change of its files",
                     side.run().folder.string(), difference.parts, difference.record,
                     difference.step, first),
         true});
  }

  // The first op of the step whose result differs; else the state after it.
  void compare_step() {
    a_side_->replayer().restore(*before_a_);
    b_side_->replayer().restore(*before_b_);
    NamedValues a = a_side_->observed_step(), b = b_side_->observed_step();
    diff_.tensor = first_difference(a, b);
    if (diff_.tensor) return;
    diff_.tensor = first_difference(state_values(a_side_->replayer().save()),
                                    state_values(b_side_->replayer().save()));
  }

  using Changes = std::vector<const RunDifference*>;

  // Whether the first run, with these changes, has the second's state after the step that differs.
  bool becomes_second(const Changes& changes) {
    train::Config config = a_.settings_of(step_of_settings());
    std::string arithmetic = a_.origin.arithmetic;
    const data::Tokens* tokens = &a_.split.train;
    bool gives_tokens = false, reads_data = false;
    for (const RunDifference* one : changes) {
      if (one->give) one->give(config);
      if (one->cause.kind == CauseKind::kernels) arithmetic = b_.origin.arithmetic;
      gives_tokens |= one->gives_tokens;
      reads_data |= one->reads_data;
    }
    if (gives_tokens) tokens = &b_.split.train;
    try {
      data::Split read;
      if (reads_data && !gives_tokens) {
        read = read_data(config, data::open_tokenizer(config.data.tokenizer).get());
        tokens = &read.train;
      }
      select_arithmetic(config, arithmetic, "diff");
      Replayer replayer(a_, config, *tokens);
      if (diff_.step == 0) {
        replayer.start();
      } else {
        replayer.restore(*before_a_);
        replayer.step();
      }
      return replayer.trainer().hash() == expected_;
    } catch (const Error&) {  // they make no run
      return false;
    }
  }

  // Of changes that make the second run only together, those that are needed.
  Changes needed_of(Changes changes) {
    for (size_t i = 0; i < changes.size();) {
      Changes rest = changes;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      if (becomes_second(rest)) {
        changes = std::move(rest);
      } else {
        ++i;
      }
    }
    return changes;
  }

  // Each alone; if none explains the step, all together without those that are not needed.
  Changes explaining(const std::vector<RunDifference>& all) {
    Changes triable, found;
    for (const RunDifference& one : all) {
      if (one.is_triable()) triable.push_back(&one);
    }
    for (const RunDifference* one : triable) {
      if (becomes_second({one})) found.push_back(one);
    }
    // A setting that explains the other tokens says more than they do.
    if (std::ranges::any_of(found, &RunDifference::reads_data))
      std::erase_if(found, [](const RunDifference* one) { return one->gives_tokens; });
    if (found.empty() && triable.size() > 1 && becomes_second(triable)) return needed_of(triable);
    return found;
  }

  void try_causes() {
    // Records differ where none of the runs took a step: note_unrepeated() has said whose.
    if (diff_.step > 0 && !before_b_) return;
    if (diff_.step > 0) {
      b_side_->replayer().restore(*before_b_);
      b_side_->replayer().step();
    }
    expected_ = b_side_->hash();
    const std::vector<RunDifference> all = differences_of(a_, b_, step_of_settings());
    std::vector<Cause> causes;
    for (const RunDifference* one : explaining(all)) {
      causes.push_back(one->cause);
      causes.back().confirmed = true;
    }
    if (causes.empty()) {
      for (const RunDifference& one : all) causes.push_back(one.cause);
    }
    diff_.causes.insert(diff_.causes.begin(), causes.begin(), causes.end());
  }

  void add_untried_causes() {
    for (RunDifference& one : differences_of(a_, b_, step_of_settings()))
      diff_.causes.push_back(std::move(one.cause));
    if (!diff_.causes.empty() || !diff_.is_known()) return;
    diff_.causes.push_back(
        {CauseKind::state,
         "settings, data, kernels and version are the same: a fault of a machine, or a change of "
         "files"});
  }

  RecordedRun &a_, &b_;
  RunDiff diff_;
  std::optional<Side> a_side_, b_side_;
  const RecordedRun* changed_run_ = nullptr;  // with a checkpoint that is not what its hash says
  io::Checkpoint changed_;
  std::optional<Replayer::State> before_a_, before_b_;
  int64_t before_step_ = -1;
  train::StateHash expected_;
};

}  // namespace

RunDiff diff_runs(const std::string& a, const std::string& b) {
  RecordedRun first = read_recorded(a), second = read_recorded(b);
  return RunComparison(first, second).compare();
}

}  // namespace binade::lab
