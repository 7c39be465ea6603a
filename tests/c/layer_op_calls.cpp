#include "binade/ops/attention/attention.h"
#include "binade/ops/attention/rope.h"
#include "binade/ops/composed.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/activation.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/index/count.h"
#include "binade/ops/index/sort.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "binade/ops/reduce/quantile.h"
#include "binade/ops/shape/rearrange.h"
#include "binade/ops/shape/shape.h"
#include "c/op_calls.h"

namespace binade::c {

std::vector<OpCall> layer_calls() {
  const Tensor none;
  const Tensor x = some({2, 3}, 41), w = some({4, 3}, 42), b = some({4}, 43),
               q = some({1, 2, 3, 4}, 44), k = some({1, 2, 3, 4}, 45), v = some({1, 2, 3, 4}, 46),
               mask = tensor({1, 0, 1, 1, 1, 0, 0, 1, 1}, {3, 3}, DType::boolean),
               image = some({2, 4, 5, 6}, 47), line = some({2, 4, 7}, 48),
               solid = some({1, 4, 3, 4, 5}, 49), columns = some({1, 2 * 2 * 3, 6}, 50),
               weight = some({4}, 51), bias = some({4}, 52), state = some({2, 4}, 53),
               w_hh = some({4, 4}, 54), b_hh = some({4}, 55), gates = some({12, 3}, 56),
               gates_hh = some({12, 4}, 57), gate_b = some({12}, 58), gate_b_hh = some({12}, 59);
  const ConvOptions conv{.stride = {2}, .padding = {1}, .dilation = {3}, .groups = 2};
  const ConvTransposeOptions transposed{
      .stride = {3}, .padding = {1}, .output_padding = {2}, .dilation = {4}, .groups = 2};
  const std::vector<Given> conv_given = {
      {"stride", 2}, {"padding", 1}, {"dilation", 3}, {"groups", 2}};
  const std::vector<Given> transposed_given = {
      {"stride", 3}, {"padding", 1}, {"output_padding", 2}, {"dilation", 4}, {"groups", 2}};
  const PoolOptions pool{.kernel = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true};
  const std::vector<Given> pool_given = {
      {"kernel", 3}, {"stride", 2}, {"padding", 1}, {"ceil_mode", 1}};
  const WindowOptions windows{.kernel = {2, 2}, .stride = {1}, .padding = {0}, .dilation = {1}};
  const WindowOptions wide{.kernel = {2, 2}, .stride = {2}, .padding = {1}, .dilation = {3}};
  const Tensor w1 = some({4, 2, 2}, 61), w2 = some({4, 2, 2, 2}, 62),
               w3 = some({4, 2, 2, 2, 2}, 63), half = some({4, 4, 2, 2}, 64),
               half_line = some({4, 4, 2}, 65), half_solid = some({4, 4, 2, 2, 2}, 66),
               grid = tanh(some({2, 3, 2, 2}, 67));
  const Tensor cosine = some({8, 2}, 68), sine = some({8, 2}, 69), qkv = some({1, 6, 16}, 70),
               sequence = some({5, 2, 4}, 71), keys = some({6, 2, 4}, 72),
               values = some({6, 2, 4}, 73);
  const Tensor running_mean = some({4}, 74), running_var = fractions({4}, 75);
  return {
      {"bilinear",
       {x, state, some({5, 3, 4}, 76), some({5}, 77)},
       {},
       bilinear(x, state, some({5, 3, 4}, 76), some({5}, 77))},
      {"linear", {x, w, b}, {}, linear(x, w, b)},
      {"linear", {x, w, b}, {{"activation", "silu"}}, silu(linear(x, w, b))},
      {"attention", {q, k, v}, {}, scaled_dot_product_attention(q, k, v)},
      {"attention",
       {q, k, v, mask},
       {{"causal", 0}},
       scaled_dot_product_attention(q, k, v, {.mask = mask})},
      {"attention",
       {q, k, v},
       {{"causal", 1}},
       scaled_dot_product_attention(q, k, v, {.causal = true})},
      {"packed_attention",
       {qkv},
       {{"heads", 2}, {"kv_heads", 1}},
       packed_attention(qkv, 2, 1, {.causal = true})},
      {"packed_attention",
       {qkv},
       {{"heads", 2}, {"kv_heads", 1}, {"causal", 0}, {"documents", List{0, 2, 6}}},
       packed_attention(qkv, 2, 1, {.causal = false, .documents = {0, 2, 6}})},
      {"varlen_attention",
       {sequence, sequence, sequence},
       {{"queries", List{0, 2, 5}}},
       varlen_attention(sequence, sequence, sequence, {List{0, 2, 5}, {}}, {})},
      {"varlen_attention",
       {sequence, keys, values},
       {{"queries", List{0, 2, 5}}, {"keys", List{0, 3, 6}}, {"causal", 1}},
       varlen_attention(sequence, keys, values, {List{0, 2, 5}, List{0, 3, 6}}, {.causal = true})},
      {"rope", {q, cosine, sine}, {}, rope(q, cosine, sine, 0, -1)},
      {"rope", {q, cosine, sine}, {{"start", 3}, {"rotated", 1}}, rope(q, cosine, sine, 3, 1)},
      {"rnn_tanh_cell",
       {x, state, w, w_hh, b, b_hh},
       {},
       rnn_tanh_cell(x, state, {w, w_hh, b, b_hh})},
      {"rnn_relu_cell",
       {x, state, w, w_hh, b, b_hh},
       {},
       rnn_relu_cell(x, state, {w, w_hh, b, b_hh})},
      {"gru_cell",
       {x, state, gates, gates_hh, gate_b, gate_b_hh},
       {},
       gru_cell(x, state, {gates, gates_hh, gate_b, gate_b_hh})},
      {"conv1d", {line, half_line, b}, {}, conv1d(line, half_line, b)},
      {"conv1d", {line, w1, b}, conv_given, conv1d(line, w1, b, conv)},
      {"conv2d", {image, half, b}, {}, conv2d(image, half, b)},
      {"conv2d", {image, w2, b}, conv_given, conv2d(image, w2, b, conv)},
      {"conv3d", {solid, half_solid, b}, {}, conv3d(solid, half_solid, b)},
      {"conv3d", {solid, w3, b}, conv_given, conv3d(solid, w3, b, conv)},
      {"conv_transpose1d", {line, half_line, b}, {}, conv_transpose1d(line, half_line, b)},
      {"conv_transpose1d",
       {line, w1, b},
       transposed_given,
       conv_transpose1d(line, w1, b, transposed)},
      {"conv_transpose2d", {image, half, b}, {}, conv_transpose2d(image, half, b)},
      {"conv_transpose2d",
       {image, w2, b},
       transposed_given,
       conv_transpose2d(image, w2, b, transposed)},
      {"conv_transpose3d", {solid, half_solid, b}, {}, conv_transpose3d(solid, half_solid, b)},
      {"conv_transpose3d",
       {solid, w3, b},
       transposed_given,
       conv_transpose3d(solid, w3, b, transposed)},
      {"upsample_nearest2d",
       {image},
       {{"height", 7}, {"width", 9}},
       upsample_nearest2d(image, 7, 9)},
      {"upsample_bilinear2d",
       {image},
       {{"height", 7}, {"width", 9}},
       upsample_bilinear2d(image, 7, 9)},
      {"grid_sampler", {image, grid}, {}, grid_sampler(image, grid)},
      {"max_pool", {image}, {}, max_pool(image, {.kernel = {2}})},
      {"max_pool", {image}, pool_given, max_pool(image, pool)},
      {"avg_pool", {image}, {}, avg_pool(image, {.kernel = {2}})},
      {"avg_pool", {image}, pool_given, avg_pool(image, pool)},
      {"global_avg_pool", {image}, {}, global_avg_pool(image)},
      {"adaptive_avg_pool", {image}, {{"sizes", List{2, 3}}}, adaptive_avg_pool(image, List{2, 3})},
      {"adaptive_max_pool", {image}, {{"sizes", List{2, 3}}}, adaptive_max_pool(image, List{2, 3})},
      {"unfold", {image}, {{"kernel", List{2, 2}}}, unfold(image, windows)},
      {"unfold",
       {image},
       {{"kernel", List{2, 2}}, {"stride", 2}, {"padding", 1}, {"dilation", 3}},
       unfold(image, wide)},
      {"fold",
       {columns},
       {{"height", 3}, {"width", 4}, {"kernel", List{2, 2}}},
       fold(columns, 3, 4, windows)},
      {"layer_norm", {state, weight, bias}, {}, layer_norm(state, weight, bias, 1e-5)},
      {"layer_norm", {state, weight, bias}, {{"eps", 0.5}}, layer_norm(state, weight, bias, 0.5)},
      {"rms_norm", {state, weight}, {}, rms_norm(state, weight, 1e-5)},
      {"rms_norm", {state, weight}, {{"eps", 0.5}}, rms_norm(state, weight, 0.5)},
      {"batch_norm",
       {image, weight, bias, running_mean, running_var},
       {{"training", 0}},
       batch_norm(image, weight, bias, running_mean, running_var,
                  {.training = false, .momentum = 0.1, .eps = 1e-5})},
      {"batch_norm",
       {image, weight, bias},
       {{"training", 1}, {"eps", 0.5}},
       batch_norm(image, weight, bias, none, none, {.training = true, .eps = 0.5})},
      {"group_norm",
       {image, weight, bias},
       {{"groups", 2}},
       group_norm(image, 2, weight, bias, 1e-5)},
      {"group_norm",
       {image, weight, bias},
       {{"groups", 2}, {"eps", 0.5}},
       group_norm(image, 2, weight, bias, 0.5)},
      {"instance_norm", {image, weight, bias}, {}, instance_norm(image, weight, bias, 1e-5)},
      {"instance_norm",
       {image, weight, bias},
       {{"eps", 0.5}},
       instance_norm(image, weight, bias, 0.5)}};
}

std::vector<OpCall> loss_calls() {
  const Tensor x = some({2, 3}, 81), y = some({2, 3}, 82), z = some({2, 3}, 83),
               p = fractions({2, 3}, 84), target = indices({2, 1}, {2}), w = some({5, 3}, 85),
               classes = indices({4, 1}, {2}), log_p = log_softmax(some({6, 2, 4}, 86), -1),
               targets = indices({1, 2, 3, 1}, {2, 2}), cube = some({2, 3, 3}, 89),
               tokens = indices({0, 2, 1, 1, 1, 2}, {2, 3});
  std::vector<OpCall> calls = {
      {"cross_entropy", {x, target}, {}, cross_entropy(x, target)},
      {"cross_entropy",
       {x, target},
       {{"reduce", "sum"}, {"smoothing", 0.25}, {"ignore_index", 1}},
       cross_entropy(x, target, {.reduce = Reduce::sum, .smoothing = 0.25, .ignore_index = 1})},
      {"cross_entropy",
       {cube, tokens, some({3}, 88)},
       {{"class_axis", 1}},
       cross_entropy(cube, tokens, {.weight = some({3}, 88), .class_axis = 1})},
      {"nll_loss",
       {cube, tokens},
       {{"class_axis", 1}},
       nll_loss(cube, tokens, Reduce::mean, -100, 1)},
      {"linear_cross_entropy", {x, w, classes}, {}, linear_cross_entropy(x, w, classes)},
      {"linear_cross_entropy",
       {x, w, classes},
       {{"reduce", "sum"}, {"smoothing", 0.25}, {"ignore_index", 1}, {"chunk_rows", 1}},
       linear_cross_entropy(x, w, classes,
                            {.reduce = Reduce::sum, .smoothing = 0.25, .ignore_index = 1}, 1)},
      {"nll_loss", {x, target}, {}, nll_loss(x, target, Reduce::mean, -100)},
      {"nll_loss",
       {x, target},
       {{"reduce", "sum"}, {"ignore_index", 1}},
       nll_loss(x, target, Reduce::sum, 1)},
      {"smooth_l1_loss", {x, y}, {}, smooth_l1_loss(x, y, Reduce::mean, 1)},
      {"smooth_l1_loss",
       {x, y},
       {{"reduce", "none"}, {"beta", 0.25}},
       smooth_l1_loss(x, y, Reduce::none, 0.25)},
      {"huber_loss", {x, y}, {}, huber_loss(x, y, Reduce::mean, 1)},
      {"huber_loss",
       {x, y},
       {{"reduce", "none"}, {"delta", 0.25}},
       huber_loss(x, y, Reduce::none, 0.25)},
      {"kl_div", {x, p}, {}, kl_div(x, p, Reduce::mean, false)},
      {"kl_div", {x, y}, {{"reduce", "sum"}, {"log_target", 1}}, kl_div(x, y, Reduce::sum, true)},
      {"multi_margin_loss", {x, target}, {}, multi_margin_loss(x, target, 1, Reduce::mean)},
      {"multi_margin_loss",
       {x, target},
       {{"margin", 0.25}, {"reduce", "sum"}},
       multi_margin_loss(x, target, 0.25, Reduce::sum)},
      {"hinge_embedding_loss", {x, signs()}, {}, hinge_embedding_loss(x, signs(), 1, Reduce::mean)},
      {"hinge_embedding_loss",
       {x, signs()},
       {{"margin", 0.25}, {"reduce", "sum"}},
       hinge_embedding_loss(x, signs(), 0.25, Reduce::sum)},
      {"margin_ranking_loss",
       {x, y, signs()},
       {},
       margin_ranking_loss(x, y, signs(), 0, Reduce::mean)},
      {"margin_ranking_loss",
       {x, y, signs()},
       {{"margin", 0.25}, {"reduce", "sum"}},
       margin_ranking_loss(x, y, signs(), 0.25, Reduce::sum)},
      {"triplet_margin_loss", {x, y, z}, {}, triplet_margin_loss(x, y, z, 1, Reduce::mean)},
      {"triplet_margin_loss",
       {x, y, z},
       {{"margin", 3.0}, {"reduce", "sum"}},
       triplet_margin_loss(x, y, z, 3, Reduce::sum)},
      {"bce_with_logits", {x, p}, {}, bce_with_logits(x, p)},
      {"bce_with_logits", {x, p}, {{"reduce", "sum"}}, bce_with_logits(x, p, Reduce::sum)},
      {"bce_with_logits",
       {x, p, some({3}, 93)},
       {{"reduce", "none"}},
       bce_with_logits(x, p, Reduce::none, some({3}, 93))},
      {"ctc_loss",
       {log_p, targets},
       {{"input_lengths", List{6, 5}}, {"target_lengths", List{2, 1}}},
       ctc_loss(log_p, targets, {List{6, 5}, List{2, 1}}, {.reduce = Reduce::mean})},
      {"ctc_loss",
       {log_p, targets - 1},
       {{"input_lengths", List{6, 1}},
        {"target_lengths", List{2, 2}},
        {"blank", 3},
        {"zero_infinity", 1},
        {"reduce", "sum"}},
       ctc_loss(log_p, targets - 1, {List{6, 1}, List{2, 2}},
                {.reduce = Reduce::sum, .blank = 3, .zero_infinity = true})}};
  using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduce);
  const std::tuple<const char*, Loss, Tensor, Tensor> losses[] = {
      {"mse_loss", mse_loss, x, y},
      {"l1_loss", l1_loss, x, y},
      {"soft_margin_loss", soft_margin_loss, x, signs()},
      {"binary_cross_entropy", binary_cross_entropy, p, fractions({2, 3}, 87)}};
  for (const auto& [name, loss, given, wanted] : losses) {
    calls.push_back({name, {given, wanted}, {}, loss(given, wanted, Reduce::mean)});
    calls.push_back({name, {given, wanted}, {{"reduce", "sum"}}, loss(given, wanted, Reduce::sum)});
    calls.push_back(
        {name, {given, wanted}, {{"reduce", "none"}}, loss(given, wanted, Reduce::none)});
  }
  return calls;
}

std::vector<OpCall> composed_calls() {
  const Tensor x = some({2, 3}, 101), y = some({2, 3}, 102), p = fractions({2, 3}, 103),
               m = greater(x, 0), n = greater(y, 0), odd = x / (cast(m, DType::f32) * 0.0),
               line = some({4}, 104), i = indices({2, 0, 2}, {3}), counts = indices({2, 0, 3}, {3}),
               at = indices({1, 0, 2}, {1, 3}), image = some({1, 8, 2, 3}, 105),
               numbers = indices({3, 1, 3, 0}, {4}), sorted = sort(line).values;
  return {{"lerp", {x, y}, {{"weight", 0.25}}, lerp(x, y, 0.25)},
          {"lerp_by", {x, y, p}, {}, lerp(x, y, p)},
          {"fmod", {x, p}, {}, fmod(x, p)},
          {"frac", {x}, {}, frac(x)},
          {"logical_xor", {m, n}, {}, logical_xor(m, n)},
          {"nan_to_num", {odd}, {}, nan_to_num(odd)},
          {"nan_to_num",
           {odd},
           {{"nan", 1.0}, {"high", 2.0}, {"low", -3.0}},
           nan_to_num(odd, 1, 2, -3)},
          {"isclose", {x, y}, {}, isclose(x, y)},
          {"isclose", {x, y}, {{"rtol", 0.0}, {"atol", 0.5}}, isclose(x, y, 0, 0.5)},
          {"isclose", {odd, odd}, {{"equal_nan", 1}}, isclose(odd, odd, 1e-5, 1e-8, true)},
          {"selu", {x}, {}, selu(x)},
          {"hardtanh", {x}, {}, hardtanh(x)},
          {"hardtanh", {x}, {{"low", -0.25}, {"high", 0.5}}, hardtanh(x, -0.25, 0.5)},
          {"relu6", {x * 9.0}, {}, relu6(x * 9.0)},
          {"logsigmoid", {x}, {}, logsigmoid(x)},
          {"softsign", {x}, {}, softsign(x)},
          {"diag", {line}, {}, diag(line)},
          {"diag", {x}, {{"offset", 1}}, diag(x, 1)},
          {"diagonal", {x}, {}, diagonal(x)},
          {"diagonal",
           {image},
           {{"offset", -1}, {"first", 3}, {"second", 1}},
           diagonal(image, -1, 3, 1)},
          {"trace", {x}, {}, trace(x)},
          {"outer", {line, i}, {}, outer(line, i)},
          {"hstack", {x, y}, {}, cat({x, y}, 1)},
          {"vstack", {line, line}, {}, stack({line, line}, 0)},
          {"tile", {x}, {{"counts", List{2}}}, repeat(x, {1, 2})},
          {"repeat_interleave", {x}, {{"count", 2}}, repeat_interleave(x, 2)},
          {"repeat_interleave", {x}, {{"count", 2}, {"axis", 0}}, repeat_interleave(x, 2, 0)},
          {"repeat_interleave_by", {x, counts}, {{"axis", 1}}, repeat_interleave(x, counts, 1)},
          {"movedim", {image}, {{"from", 0}, {"to", 2}}, movedim(image, 0, 2)},
          {"pixel_shuffle", {image}, {{"factor", 2}}, pixel_shuffle(image, 2)},
          {"scatter", {x, at, y}, {{"axis", 1}}, scatter(x, 1, at, y)},
          {"scatter_value", {x, at}, {{"axis", 1}, {"value", 2.5}}, scatter(x, 1, at, 2.5)},
          {"index_add", {x, i, y}, {{"axis", 1}}, index_add(x, 1, i, y)},
          {"index_add", {x, i, y}, {{"axis", 1}, {"alpha", 2.5}}, index_add(x, 1, i, y, 2.5)},
          {"index_fill",
           {x, indices({2, 0}, {2})},
           {{"axis", 1}, {"value", 2.5}},
           index_fill(x, 1, indices({2, 0}, {2}), 2.5)},
          {"take", {x, i}, {}, take(x, i)},
          {"count_nonzero", {m}, {}, count_nonzero(m)},
          {"count_nonzero", {m}, {{"axes", List{1}}}, count_nonzero(m, 1)},
          {"normalize", {x}, {}, normalize(x)},
          {"normalize", {x}, {{"p", 1.0}, {"axis", 0}, {"eps", 3.0}}, normalize(x, 1, 0, 3)},
          {"unique", {numbers}, {}, unique(numbers).values},
          {"unique_inverse", {numbers}, {}, unique(numbers, {.inverse = true}).inverse},
          {"unique_counts", {numbers}, {}, unique(numbers, {.counts = true}).counts},
          {"unique_consecutive", {i}, {}, unique_consecutive(i).values},
          {"bincount", {numbers}, {}, bincount(numbers)},
          {"bincount", {numbers, line}, {{"minimum", 6}}, bincount(numbers, line, 6)},
          {"searchsorted", {sorted, line}, {}, searchsorted(sorted, line)},
          {"searchsorted", {sorted, line}, {{"right", 1}}, searchsorted(sorted, line, true)},
          {"median", {x}, {}, median(x)},
          {"median_along", {x}, {{"axis", 0}, {"keep", 1}}, median(x, 0, true).values},
          {"quantile", {x}, {{"q", 0.3}}, quantile(x, 0.3)},
          {"quantile", {x}, {{"q", 0.3}, {"axis", 1}, {"keep", 1}}, quantile(x, 0.3, 1, true)},
          {"quantiles", {x, fractions({3}, 106)}, {}, quantile(x, fractions({3}, 106))},
          {"quantiles",
           {x, fractions({3}, 106)},
           {{"axis", 0}, {"keep", 1}},
           quantile(x, fractions({3}, 106), 0, true)}};
}

}  // namespace binade::c
