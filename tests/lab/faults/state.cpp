#include "lab/faults/table.h"

// Buffers and parameters that were bad before the step, and faults of optimizers.
namespace binade::lab::faults {
namespace {

template <class T, class Options>
auto maker(Options options) {
  return [options](const Tensor& w) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<T>(std::vector<Tensor>{w}, options);
  };
}

const Tensor bad_variance = full({4}, nan), good_mean = full({4}, 0.0);
const Tensor bad_factor = spiked(infinity);
const Tensor mask_buffer = spiked(-infinity, 0);
const Tensor bad_bias = [] {
  Tensor bias = full({4}, 1.0);
  fill_(bias.strided({1}, {1}, 3), nan);
  return bias.set_requires_grad();
}();
const Tensor bad_table = spiked(infinity).set_requires_grad();

// Replaces an entry of an optimizer's state by NaN, as a damaged checkpoint would.
auto damaged(const char* entry) {
  return [entry](optim::Optimizer& optimizer) {
    StateDict state = optimizer.state_dict();
    fill_(state.at(entry), nan);
    optimizer.load_state_dict(state);
  };
}

}  // namespace

std::vector<Fault> state_faults() {
  using enum Direction;
  const auto normalized = [](const Tensor& w) {
    return sum(
        batch_norm(reshape(w, {2, 4, 4}), {}, {}, good_mean, bad_variance, {.training = false}));
  };
  std::vector<Fault> faults = {
      {"running_variance", 1, normalized, "batch_norm", forward, Origin::buffer, Verdict::state, 1,
       false, "layer", "layer.running_var"},
      {"buffer_that_multiplies", 1, [](const Tensor& w) { return sum(w * bad_factor); }, "mul",
       forward, Origin::buffer, Verdict::state, 1, false, "layer", "layer.factor"},
      {"mask_in_a_buffer", 0,
       [](const Tensor& w) { return sum(softmax(w + mask_buffer)) + sum(constant(1) / w); }, "div",
       forward, Origin::op, Verdict::op},
      {"nan_in_the_bias", 1, [](const Tensor& w) { return sum(linear(constant(1), w, bad_bias)); },
       "linear", optimizer, Origin::parameter, Verdict::state, 1, false, "layer", "layer.bias"},
      {"inf_in_an_embedding", 1,
       [](const Tensor& w) {
         return sum(embedding(bad_table, tensor({0, 2}, {2}, DType::i64))) + sum(w);
       },
       "embedding", optimizer, Origin::parameter, Verdict::state, 1, false, "layer", "layer.table"},
      {"buffer_inside_recompute", 1,
       [](const Tensor& w) {
         return sum(checkpoint([](std::span<const Tensor> x) { return x[0] * bad_factor; }, {w}));
       },
       "mul", forward, Origin::buffer, Verdict::state, 1, false, "layer", "layer.factor"},
  };
  faults[0].buffers = {{"layer.running_mean", good_mean}, {"layer.running_var", bad_variance}};
  faults[1].buffers = faults[5].buffers = {{"layer.factor", bad_factor}};
  faults[2].buffers = {{"layer.mask", mask_buffer}};
  faults[3].parameters = {{"layer.bias", bad_bias}};
  faults[4].parameters = {{"layer.table", bad_table}};
  return faults;
}

std::vector<UpdateFault> update_faults() {
  using optim::AdamOptions, optim::SgdOptions;
  std::vector<UpdateFault> faults = {
      {"adam_without_eps", maker<optim::AdamW>(AdamOptions{.eps = 0}), 1, 0, DType::f32, "AdamW",
       "layer.weight [4, 8] f32"},
      {"second_moment", maker<optim::Adam>(AdamOptions{}), 1, 1e21, DType::f32, "Adam",
       "second moment of layer.weight [4, 8] f32"},
      {"rate_too_high", maker<optim::SGD>(SgdOptions{.lr = 1e20}), 1, 1e20, DType::f32, "SGD",
       "layer.weight [4, 8] f32"},
      {"momentum", maker<optim::SGD>(SgdOptions{.lr = 1, .weight_decay = 1e10}), 1e30, 1,
       DType::f32, "SGD", "layer.weight [4, 8] f32"},
      {"f16_without_master_weights",
       maker<optim::SGD>(SgdOptions{.lr = 1, .master = {.masters = false}}), 60000, -10000,
       DType::f16, "SGD", "layer.weight [4, 8] f16"},
      {"master_weight_beyond_f16", maker<optim::SGD>(SgdOptions{.lr = 1}), 60000, -10000,
       DType::f16, "SGD", "layer.weight [4, 8] f16"},
      {"rate_of_an_f16_weight",
       maker<optim::AdamW>(AdamOptions{.lr = 1e6, .master = {.masters = false}}), 1, 1, DType::f16,
       "AdamW", "layer.weight [4, 8] f16"},
      {"decay_beyond_f32", maker<optim::AdamW>(AdamOptions{.lr = 1e20, .weight_decay = 1e20}), 1, 1,
       DType::f32, "AdamW", "layer.weight [4, 8] f32"},
      {"nan_in_the_gradient", maker<optim::AdamW>(AdamOptions{}), 1, nan, DType::f32, "AdamW",
       "gradient of layer.weight [4, 8] f32", Direction::backward},
      {"rmsprop_without_eps", maker<optim::RMSprop>(optim::RmspropOptions{.eps = 0}), 1, 0,
       DType::f32, "RMSprop", "layer.weight [4, 8] f32"},
      {"adagrad_without_eps", maker<optim::Adagrad>(optim::AdagradOptions{.eps = 0}), 1, 0,
       DType::f32, "Adagrad", "layer.weight [4, 8] f32"},
      {"lion_decay_beyond_f32",
       maker<optim::Lion>(optim::LionOptions{.lr = 1e20, .weight_decay = 1e20}), 1, 1, DType::f32,
       "Lion", "layer.weight [4, 8] f32"},
      {"damaged_first_moment", maker<optim::AdamW>(AdamOptions{}), 1, 1, DType::f32, "AdamW",
       "first moment of layer.weight [4, 8] f32", Direction::optimizer, damaged("0.first")},
      {"damaged_second_moment", maker<optim::AdamW>(AdamOptions{}), 1, 1, DType::f32, "AdamW",
       "second moment of layer.weight [4, 8] f32", Direction::optimizer, damaged("0.second")},
      {"damaged_master_weight", maker<optim::AdamW>(AdamOptions{}), 1, 1, DType::bf16, "AdamW",
       "master weight of layer.weight [4, 8] f32", Direction::optimizer, damaged("0.master")},
  };
  return faults;
}

}  // namespace binade::lab::faults
