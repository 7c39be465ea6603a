// Every case of ops.safetensors through Binade's ops, forward and backward, against PyTorch in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/base/json.h"
#include "binade/binade.h"
#include "binade/io/safetensors.h"
#include "io/golden_ops.h"
#include "io/temporary_folder.h"

namespace binade::io {
namespace {

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
Op convolution(Convolution function) {
  return [=](const Params& p, const Inputs& in) -> Outputs {
    const ConvOptions options{p.integers("stride"), p.integers("padding"), p.integers("dilation"),
                              p.integer("groups")};
    return {function(in.at("x"), in.at("weight"), optional(in, "bias"), options)};
  };
}

using ConvolutionTranspose = Tensor (*)(const Tensor&, const Tensor&, const Tensor&,
                                        const ConvTransposeOptions&);
Op convolution_transpose(ConvolutionTranspose function) {
  return [=](const Params& p, const Inputs& in) -> Outputs {
    const ConvTransposeOptions options{p.integers("stride"), p.integers("padding"),
                                       p.integers("output_padding"), p.integers("dilation"),
                                       p.integer("groups")};
    return {function(in.at("x"), in.at("weight"), optional(in, "bias"), options)};
  };
}

Outputs run_max_pool(const Params& p, const Inputs& in) {
  return {max_pool(in.at("x"),
                   {p.integers("kernel_size"), p.integers("stride"), p.integers("padding")})};
}

Outputs run_avg_pool(const Params& p, const Inputs& in) {
  return {avg_pool(in.at("x"), {p.integers("kernel_size"), p.integers("stride"),
                                p.integers("padding"), p.flag("count_include_pad")})};
}

Tensor classes_last(const Tensor& x) { return x.rank() == 3 ? permute(x, {0, 2, 1}) : x; }

// PyTorch's softplus turns into the identity above a threshold.
Outputs run_softplus(const Params& p, const Inputs& in) {
  const Tensor z = in.at("x") * p.number("beta");
  const Tensor limit = full({}, p.number("threshold"), z.dtype());
  return {where(greater(z, limit), in.at("x"), softplus(z) / p.number("beta"))};
}

Outputs run_logsumexp(const Params& p, const Inputs& in) {
  std::vector<int64_t> axes = p.integers("dim");
  std::sort(axes.rbegin(), axes.rend());
  Tensor y = in.at("x");
  for (const int64_t axis : axes) y = logsumexp(y, axis, p.flag("keepdim"));
  return {y};
}

Outputs run_layer_norm(const Params& p, const Inputs& in) {
  const Tensor& x = in.at("x");
  const int64_t axes = static_cast<int64_t>(p.integers("normalized_shape").size());
  const Tensor rows = flatten(x, -axes, -1);
  return {reshape(layer_norm(rows, optional(in, "weight"), optional(in, "bias"), p.number("eps")),
                  x.shape())};
}

Outputs run_batch_norm(const Params& p, const Inputs& in) {
  const Tensor mean = cast(in.at("running_mean"), DType::f32),
               variance = cast(in.at("running_var"), DType::f32);
  const Tensor new_mean = clone(mean), new_variance = clone(variance);
  const Tensor y = batch_norm(
      in.at("x"), in.at("weight"), in.at("bias"), new_mean, new_variance,
      {.training = p.flag("training"), .momentum = p.number("momentum"), .eps = p.number("eps")});
  return {y, new_mean, new_variance};
}

Outputs run_rope(const Params& p, const Inputs& in) {
  const Tensor x = permute(in.at("x"), {0, 2, 1, 3});
  const int64_t offset = p.integer("offset");
  const auto [cosine, sine] = rope_tables(x.size(1) + offset, x.size(3), p.number("theta"));
  return {permute(rope(x, cosine, sine, offset), {0, 2, 1, 3})};
}

Outputs run_cross_entropy(const Params& p, const Inputs& in) {
  const CrossEntropyOptions options{p.reduction(), p.number("label_smoothing"),
                                    p.integer("ignore_index")};
  return {cross_entropy(classes_last(in.at("x")), in.at("target"), options)};
}

Outputs run_kl_div(const Params& p, const Inputs& in) {
  const Tensor y = kl_div(in.at("x"), in.at("target"), p.reduction(), p.flag("log_target"));
  return {p.text("reduction") == "batchmean" ? y / static_cast<double>(in.at("x").size(0)) : y};
}

Outputs run_extreme(const Params& p, const Inputs& in, bool largest) {
  const int64_t axis = p.integer("dim");
  const bool keep = p.flag("keepdim");
  const Tensor& x = in.at("x");
  if (largest) return {max(x, axis, keep), argmax(x, axis, keep)};
  return {min(x, axis, keep), argmin(x, axis, keep)};
}

double norm_order(const std::string& text) { return text == "inf" ? INFINITY : std::stod(text); }

const std::map<std::string, Op>& table() {
  using P = Params;
  using I = Inputs;
  static const std::map<std::string, Op> ops = {
      {"gelu",
       [](const P& p, const I& in) -> Outputs {
         return {gelu(in.at("x"), p.text("approximate") == "tanh" ? Gelu::tanh : Gelu::erf)};
       }},
      {"silu", [](const P&, const I& in) -> Outputs { return {silu(in.at("x"))}; }},
      {"softplus", run_softplus},
      {"swiglu",
       [](const P&, const I& in) -> Outputs {
         return {swiglu(cat({in.at("gate"), in.at("up")}, -1))};
       }},
      {"softmax",
       [](const P& p, const I& in) -> Outputs { return {softmax(in.at("x"), p.integer("dim"))}; }},
      {"log_softmax",
       [](const P& p, const I& in) -> Outputs {
         return {log_softmax(in.at("x"), p.integer("dim"))};
       }},
      {"logsumexp", run_logsumexp},
      {"layer_norm", run_layer_norm},
      {"rms_norm",
       [](const P& p, const I& in) -> Outputs {
         return {rms_norm(in.at("x"), optional(in, "weight"), p.number("eps"))};
       }},
      {"batch_norm", run_batch_norm},
      {"group_norm",
       [](const P& p, const I& in) -> Outputs {
         return {group_norm(in.at("x"), p.integer("num_groups"), in.at("weight"), in.at("bias"),
                            p.number("eps"))};
       }},
      {"conv1d", convolution(conv1d)},
      {"conv2d", convolution(conv2d)},
      {"conv3d", convolution(conv3d)},
      {"conv_transpose1d", convolution_transpose(conv_transpose1d)},
      {"conv_transpose2d", convolution_transpose(conv_transpose2d)},
      {"conv_transpose3d", convolution_transpose(conv_transpose3d)},
      {"max_pool1d", run_max_pool},
      {"max_pool2d", run_max_pool},
      {"avg_pool1d", run_avg_pool},
      {"avg_pool2d", run_avg_pool},
      {"adaptive_avg_pool2d",
       [](const P&, const I& in) -> Outputs { return {global_avg_pool(in.at("x"))}; }},
      {"scaled_dot_product_attention",
       [](const P& p, const I& in) -> Outputs {
         return {scaled_dot_product_attention(in.at("q"), in.at("k"), in.at("v"),
                                              {p.flag("is_causal"), p.number_or_none("scale")})};
       }},
      {"rope", run_rope},
      {"cross_entropy", run_cross_entropy},
      {"nll_loss",
       [](const P& p, const I& in) -> Outputs {
         return {nll_loss(in.at("x"), in.at("target"), p.reduction(), p.integer("ignore_index"))};
       }},
      {"mse_loss",
       [](const P& p, const I& in) -> Outputs {
         return {mse_loss(in.at("x"), in.at("target"), p.reduction())};
       }},
      {"l1_loss",
       [](const P& p, const I& in) -> Outputs {
         return {l1_loss(in.at("x"), in.at("target"), p.reduction())};
       }},
      {"smooth_l1_loss",
       [](const P& p, const I& in) -> Outputs {
         return {smooth_l1_loss(in.at("x"), in.at("target"), p.reduction(), p.number("beta"))};
       }},
      {"huber_loss",
       [](const P& p, const I& in) -> Outputs {
         return {huber_loss(in.at("x"), in.at("target"), p.reduction(), p.number("delta"))};
       }},
      {"bce_with_logits",
       [](const P& p, const I& in) -> Outputs {
         return {bce_with_logits(in.at("x"), in.at("target"), p.reduction(),
                                 optional(in, "pos_weight"))};
       }},
      {"kl_div", run_kl_div},
      {"embedding",
       [](const P&, const I& in) -> Outputs {
         return {embedding(in.at("weight"), in.at("indices"))};
       }},
      {"gather",
       [](const P& p, const I& in) -> Outputs {
         return {gather(in.at("x"), p.integer("dim"), in.at("index"))};
       }},
      {"index_select",
       [](const P& p, const I& in) -> Outputs {
         return {index_select(in.at("x"), p.integer("dim"), in.at("index"))};
       }},
      {"scatter_add",
       [](const P& p, const I& in) -> Outputs {
         return {scatter_add(in.at("x"), p.integer("dim"), in.at("index"), in.at("src"))};
       }},
      {"var",
       [](const P& p, const I& in) -> Outputs {
         return {var(in.at("x"), p.integers("dim"), p.flag("keepdim"), p.number("correction"))};
       }},
      {"norm",
       [](const P& p, const I& in) -> Outputs {
         return {norm(in.at("x"), norm_order(p.text("p")), p.integers("dim"), p.flag("keepdim"))};
       }},
      {"prod",
       [](const P& p, const I& in) -> Outputs {
         return {prod(in.at("x"), {p.integer("dim")}, p.flag("keepdim"))};
       }},
      {"cumsum",
       [](const P& p, const I& in) -> Outputs { return {cumsum(in.at("x"), p.integer("dim"))}; }},
      {"max", [](const P& p, const I& in) { return run_extreme(p, in, true); }},
      {"min", [](const P& p, const I& in) { return run_extreme(p, in, false); }},
      {"argmax",
       [](const P& p, const I& in) -> Outputs {
         return {argmax(in.at("x"), p.integer("dim"), p.flag("keepdim"))};
       }},
      {"matmul", [](const P&, const I& in) -> Outputs { return {matmul(in.at("a"), in.at("b"))}; }},
      {"bmm", [](const P&, const I& in) -> Outputs { return {bmm(in.at("a"), in.at("b"))}; }},
      {"addmm",
       [](const P& p, const I& in) -> Outputs {
         return {
             addmm(in.at("input"), in.at("a"), in.at("b"), p.number("beta"), p.number("alpha"))};
       }},
      {"linear",
       [](const P&, const I& in) -> Outputs {
         return {linear(in.at("x"), in.at("weight"), optional(in, "bias"))};
       }},
  };
  return ops;
}

Op op_named(const std::string& name) {
  const auto found = table().find(name);
  return found != table().end() ? found->second : rearranging_golden_ops().at(name);
}

using Values = std::vector<double>;

// What one run of a case gives: outputs, then the gradients of the inputs that have one.
std::map<std::string, Values> run_case(const SafetensorsFile& file, const json::Value& item,
                                       DType dtype, int perturbation) {
  const std::string name = item.at("case").string();
  const std::vector<json::Value>& input_names = item.at("inputs").array();
  Inputs inputs;
  std::map<std::string, Tensor> leaves;
  for (size_t i = 0; i < input_names.size(); ++i) {
    Tensor value = file.load(name + "/in" + std::to_string(i));
    if (is_floating(value.dtype())) {
      Values values = to_vector(value);
      // Each element moved by up to half a unit in the last place of f32: an error no f32 kernel
      // can avoid.
      for (size_t j = 0; perturbation > 0 && j < values.size(); ++j) {
        values[j] *= 1 + (random::uniform(static_cast<uint64_t>(perturbation), i, j) - 0.5) *
                             epsilon(DType::f32);
      }
      value = tensor(values, value.shape(), dtype);
    }
    const std::string gradient = name + "/dx" + std::to_string(i);
    if (file.find(gradient) != nullptr) leaves[gradient] = value.set_requires_grad();
    inputs[input_names[i].string()] = value;
  }
  const Outputs outputs = op_named(item.at("op").string())(Params(item.at("params")), inputs);
  if (file.find(name + "/dy0") != nullptr)
    outputs[0].backward(cast(file.load(name + "/dy0"), dtype));
  std::map<std::string, Values> results;
  for (size_t i = 0; i < outputs.size(); ++i)
    results[name + "/out" + std::to_string(i)] = to_vector(outputs[i]);
  for (const auto& [gradient, leaf] : leaves)
    results[gradient] = leaf.grad().defined() ? to_vector(leaf.grad()) : Values();
  return results;
}

double largest(const Values& values) {
  double result = 0;
  for (const double value : values)
    result = std::isfinite(value) ? std::max(result, std::fabs(value)) : result;
  return result;
}

// Over the elements where `b` is a number.
double largest_difference(const Values& a, const Values& b) {
  double result = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) continue;
    const double difference = std::fabs(a[i] - b[i]);
    result = std::isnan(difference) ? INFINITY : std::max(result, difference);
  }
  return result;
}

// How far results move when every input moves by a rounding error of f32, in units of f32's
// epsilon: the condition of the case, which scales what a correct kernel of any type may be off by.
std::map<std::string, double> sensitivity(const SafetensorsFile& file, const json::Value& item) {
  const auto exact = run_case(file, item, DType::f64, 0);
  std::map<std::string, double> result;
  for (int perturbation = 1; perturbation <= 4; ++perturbation) {
    for (const auto& [name, values] : run_case(file, item, DType::f64, perturbation)) {
      result[name] =
          std::max(result[name], largest_difference(values, exact.at(name)) / epsilon(DType::f32));
    }
  }
  return result;
}

// Rotary tables and running statistics are f32 whatever the type of x, and so is the 1/6 in
// PyTorch's gradient of hardsigmoid.
bool made_in_f32(const std::string& result) {
  return result.starts_with("rope") || result == "hardsigmoid_0/dx0" ||
         (result.starts_with("batch_norm") &&
          (result.ends_with("out1") || result.ends_with("out2")));
}

void check_all(DType dtype) {
  const SafetensorsFile file(testing::golden("ops.safetensors"));
  const json::Document document =
      json::parse(file.metadata().at("cases"), {"ops", "ops.safetensors"});
  int cases = 0;
  for (const json::Value& item : document.root().array()) {
    SCOPED_TRACE(item.at("case").string());
    ++cases;
    const std::string op = item.at("op").string();
    ASSERT_TRUE(table().contains(op) || rearranging_golden_ops().contains(op));
    try {
      const auto scale = sensitivity(file, item);
      for (const auto& [name, values] : run_case(file, item, dtype, 0)) {
        const Tensor golden = file.load(name);
        const Values expected = to_vector(golden);
        ASSERT_EQ(values.size(), expected.size()) << name;
        const double eps = epsilon(made_in_f32(name) ? DType::f32 : dtype);
        const double tolerance =
            golden.dtype() == DType::i64 ? 0 : 16 * eps * (scale.at(name) + largest(expected));
        EXPECT_LE(largest_difference(values, expected), tolerance) << name;
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  EXPECT_EQ(cases, 198);
}

TEST(GoldenOps, F64) { check_all(DType::f64); }
TEST(GoldenOps, F32) { check_all(DType::f32); }

}  // namespace
}  // namespace binade::io
