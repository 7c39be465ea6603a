#include "binade/lab/torch_diff/observation.h"

#include <algorithm>
#include <set>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/node.h"
#include "binade/autograd/op_observer.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/lab/replay/capture.h"
#include "binade/ops/attention/rope.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/loss/loss.h"

namespace binade::lab {
namespace {

constexpr double f32_roundoff = 0x1p-24;

// Captures results and gradients, and which op reads whose results.
class FlowObserver : public autograd::OpObserver {
 public:
  void forward(Op op, std::span<const Tensor> inputs, std::span<const Tensor> compute,
               std::span<const Tensor> outputs) override {
    const size_t index = seen_.ops.size(), before = capture_.tensors().size();
    ObservedOp one{.op = op, .module = autograd::module_path(), .from_tokens = op == Op::embedding};
    std::set<size_t> sources;
    for (const Tensor& input : inputs) {
      if (input.defined()) add_sources(input.autograd_meta(), sources);
    }
    for (const size_t source : sources) {
      one.from_tokens |= seen_.ops[source].from_tokens;
      seen_.ops[source].consumers.push_back(index);
    }
    one.inputs.assign(sources.begin(), sources.end());
    capture_.forward(op, inputs, compute, outputs);
    for (size_t i = before; i < capture_.tensors().size(); ++i) {
      const CapturedTensor& captured = capture_.tensors()[i];
      const std::string place = captured.name.substr(captured.name.find('/') + 1);
      one.results.push_back(seen_.results.size());
      by_place_[place] = seen_.results.size();
      seen_.results.push_back({.place = place, .op = index});
      seen_.results.back().value.value = captured.value;
    }
    for (const Tensor& output : outputs) {
      if (output.defined() && output.autograd_meta() != nullptr &&
          output.autograd_meta()->node != nullptr)
        by_node_[output.autograd_meta()->node->sequence] = index;
    }
    seen_.ops.push_back(std::move(one));
  }

  void after_backward(const autograd::Node& node, std::span<const Tensor> dy) override {
    const auto found = by_node_.find(node.sequence);
    if (found != by_node_.end()) seen_.ops[found->second].backward = backwards_++;
    const size_t before = capture_.tensors().size();
    capture_.after_backward(node, dy);
    for (size_t i = before; i < capture_.tensors().size(); ++i) {
      const CapturedTensor& captured = capture_.tensors()[i];
      const auto result = by_place_.find(captured.name.substr(captured.name.find('/') + 1));
      if (result != by_place_.end()) seen_.results[result->second].gradient.value = captured.value;
    }
  }

  Observation take() { return std::move(seen_); }

 private:
  // The ops that computed a tensor; views of their results stand for these.
  void add_sources(const std::shared_ptr<autograd::AutogradMeta>& meta, std::set<size_t>& sources) {
    if (meta == nullptr || meta->node == nullptr) return;
    const auto found = by_node_.find(meta->node->sequence);
    if (found != by_node_.end()) {
      sources.insert(found->second);
      return;
    }
    for (const autograd::GradSlot& input : meta->node->inputs) add_sources(input.meta(), sources);
  }

  Capture capture_{0, {}};
  Observation seen_;
  std::map<uint64_t, size_t> by_node_;  // by a node's sequence number
  std::map<std::string, size_t> by_place_;
  int64_t backwards_ = 0;
};

Observation observe_once(nn::LanguageModel& model, const ObservedBatch& batch) {
  const Device device = model.head_weight().device();
  random::begin_step(0, 0);
  random::begin_micro_batch(0);
  model.zero_grad();
  FlowObserver observer;
  {
    const autograd::OpObserverScope observed(&observer);
    const Tensor logits = model.logits(to(batch.tokens, device));
    if (batch.targets.defined()) {
      const Tensor loss = cross_entropy(logits, to(batch.targets, device), {.class_axis = -1});
      if (batch.backward) loss.backward();
    }
  }
  Observation seen = observer.take();
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (batch.backward && parameter.grad().defined())
      seen.parameters[name].value = clone(to(parameter.grad().detach(), Device::cpu()));
  }
  model.zero_grad();
  return seen;
}

void move_weights(nn::LanguageModel& model, double roundoff) {
  const NoGrad no_grad;
  const amp::Autocast off(amp::disabled_autocast());
  uint64_t stream = 0;
  for (const Tensor& parameter : model.parameters()) {
    const Tensor drawn = rand(parameter.shape(), random::Key{.seed = 1, .stream = stream++},
                              DType::f32, parameter.device());
    copy_(parameter, parameter + parameter * sign(drawn - 0.5) * roundoff);
  }
}

// As f32 rounds frequencies and their products with positions: that of pair j by 4 j roundings. The
// first frequency is 1, and exact.
void move_rope(nn::LanguageModel& model) {
  const nn::LanguageModelConfig& config = model.config();
  if (config.learned_positions) return;
  const int64_t dim = config.rotary_dim != 0 ? config.rotary_dim : config.head_width();
  const double factor = 1 + 2 * static_cast<double>(dim) * f32_roundoff;
  const auto tables = [&](double theta, const nn::RopeScaling& scaling) {
    return rope_tables(config.context, nn::rope_frequencies(dim, theta * factor, scaling),
                       model.head_weight().device());
  };
  const auto all = tables(config.rope_theta, config.rope_scaling);
  const auto local = config.local_rope_theta ? tables(*config.local_rope_theta, {}) : all;
  int64_t layer = 0;
  for (nn::Module* module : model.modules()) {
    auto* const attention = dynamic_cast<nn::MultiheadAttention*>(module);
    if (attention == nullptr) continue;
    const auto& [cosine, sine] = config.window_of(layer++) > 0 ? local : all;
    attention->set_rope(cosine, sine);
  }
}

void add_moved(Observation& seen, Observation moved) {
  if (seen.results.size() != moved.results.size())
    fail("diff", {.argument = "model",
                  .expected = "the same ops for the same batch",
                  .found = std::to_string(moved.results.size()) + " results after " +
                           std::to_string(seen.results.size())});
  for (size_t i = 0; i < seen.results.size(); ++i) {
    seen.results[i].value.moved = std::move(moved.results[i].value.value);
    seen.results[i].gradient.moved = std::move(moved.results[i].gradient.value);
  }
  for (auto& [name, gradient] : seen.parameters)
    gradient.moved = std::move(moved.parameters[name].value);
}

}  // namespace

bool moves_only(Op op) {
  constexpr Op moving[] = {Op::reshape,    Op::permute, Op::slice, Op::expand,
                           Op::contiguous, Op::clone,   Op::cat,   Op::stack};
  return std::ranges::find(moving, op) != std::end(moving);
}

Observation observe(nn::LanguageModel& model, const ObservedBatch& batch,
                    const train::InferencePrecision& precision, double roundoff) {
  const train::InferenceScope scope(precision, model.head_weight().device());
  model.train();
  Observation seen = observe_once(model, batch);
  move_weights(model, roundoff);
  move_rope(model);
  add_moved(seen, observe_once(model, batch));
  return seen;
}

}  // namespace binade::lab
