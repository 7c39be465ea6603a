#include "ops/bad_input.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/ops/attention/attention.h"
#include "binade/ops/conv/conv.h"
#include "binade/ops/conv/pool.h"
#include "binade/ops/conv/sample.h"
#include "binade/ops/conv/unfold.h"
#include "binade/ops/loss/ctc_loss.h"
#include "binade/ops/loss/distance.h"
#include "binade/ops/loss/loss.h"
#include "binade/ops/loss/margin_loss.h"
#include "binade/ops/matmul/einsum.h"
#include "binade/ops/matmul/linear.h"
#include "binade/ops/matmul/matmul.h"
#include "binade/ops/matmul/recurrent.h"
#include "binade/ops/norm/norm.h"
#include "binade/ops/norm/softmax.h"
#include "support/error_of.h"

// One case a line.
// clang-format off
namespace binade::bad_input {
namespace {

TEST(BadInput, Products) {
  expect_refused({
      {"matmul", "operands", [] { matmul(f({2, 3}), f({4, 2})); }},
      {"matmul", "operands", [] { matmul(f({}), f({3})); }},
      {"matmul", "operands", [] { matmul(f({2, 2, 3}), f({3, 3, 2})); }},
      {"matmul", "inputs", [] { matmul(f({2, 3}), h({3, 2})); }},
      {"matmul", "inputs", [] { matmul(f({2, 3}), m({3, 2})); }},
      {"matmul", "a", [] { matmul(i({2, 3}), f({3, 2})); }},
      {"matmul", "b", [] { matmul(f({2, 3}), none); }},
      {"mm", "a", [] { mm(f({2, 2, 3}), f({3, 2})); }},
      {"bmm", "operands", [] { bmm(f({2, 2, 3}), f({3, 3, 2})); }},
      {"mv", "b", [] { mv(f({2, 3}), f({3, 1})); }},
      {"dot", "a", [] { dot(f({2, 3}), f({3})); }},
      {"dot", "operands", [] { dot(f({2}), f({3})); }},
      {"addmm", "operands", [] { addmm(f({3}), f({2, 3}), f({3, 2})); }},
      {"addmm", "c", [] { addmm(f({5, 2, 2}), f({2, 3}), f({3, 2})); }},
      {"addmm", "a", [] { addmm(f({2}), f({3}), f({3, 2})); }},
      {"addmm", "alpha", [] { addmm(f({2}), f({2, 3}), f({3, 2}), 1, infinity); }},
      {"addmm", "beta", [] { addmm(f({2}), f({2, 3}), f({3, 2}), nan, 1); }},
      {"baddbmm", "operands", [] { baddbmm(f({2}), f({2, 2, 3}), f({3, 3, 2})); }},
      {"tensordot", "axes", [] { tensordot(f({2, 3}), f({3, 2}), {1}, {0, 1}); }},
      {"tensordot", "axes", [] { tensordot(f({2, 3}), f({3, 2}), {1}, {1}); }},
      {"tensordot", "axes", [] { tensordot(f({2, 2}), f({2, 2}), {0, 0}, {0, 1}); }},
      {"tensordot", "axis", [] { tensordot(f({2, 3}), f({3, 2}), {2}, {0}); }},
      {"addmm", "inputs", [] { addmm(f({2}), f({2, 3}), h({3, 2})); }},
      {"baddbmm", "inputs", [] { baddbmm(f({2}), f({1, 2, 3}), h({1, 3, 2})); }},
      {"einsum", "inputs", [] { einsum("ij,jk->ik", {f({2, 3}), h({3, 2})}); }},
      {"tensordot", "inputs", [] { tensordot(f({2, 3}), h({3, 2}), {1}, {0}); }},
      {"bilinear", "inputs", [] { bilinear(f({2, 3}), f({2, 4}), h({5, 3, 4})); }},
      {"rnn_tanh_cell", "inputs", [] { rnn_tanh_cell(f({2, 3}), f({2, 4}), {h({4, 3}), h({4, 4}), none, none}); }},
      {"einsum", "equation", [] { einsum("i1,1k->ik", {f({2, 3}), f({3, 2})}); }},
      {"einsum", "equation", [] { einsum("i......->i", {f({2, 3})}); }},
      {"einsum", "equation", [] { einsum("ijk...->i", {f({2, 3})}); }},
      {"einsum", "equation", [] { einsum("ij->i...", {f({2, 3}), f({2, 3})}); }},
      {"einsum", "equation", [] { einsum("", {}); }},
      {"einsum", "equation", [] { einsum("ij->ij", {f({2, 3}), f({3, 2})}); }},
      {"einsum", "equation", [] { einsum("ijk,jk->i", {f({2, 3}), f({3, 2})}); }},
      {"einsum", "equation", [] { einsum("ii->i", {f({2, 3})}); }},
      {"einsum", "equation", [] { einsum("ij->ijk", {f({2, 2})}); }},
      {"einsum", "equation", [] { einsum("ij->iij", {f({2, 2})}); }},
      {"einsum", "operands", [] { einsum("ij,jk->ik", {f({2, 3}), f({4, 2})}); }},
      {"linear", "x", [] { linear(f({2, 3}), f({4, 2})); }},
      {"linear", "bias", [] { linear(f({2, 3}), f({4, 3}), f({3})); }},
      {"linear", "weight", [] { linear(f({2, 3}), f({3})); }},
      {"linear", "inputs", [] { linear(f({2, 3}), h({4, 3})); }},
      {"linear", "inputs", [] { linear(f({2, 3}), m({4, 3})); }},
      {"linear", "x", [] { linear(none, f({4, 3})); }},
      {"bilinear", "a and b", [] { bilinear(f({2, 3}), f({2, 4}), f({5, 4, 3})); }},
      {"bilinear", "bias", [] { bilinear(f({2, 3}), f({2, 4}), f({5, 3, 4}), f({4})); }},
      {"rnn_tanh_cell", "weights.input", [] { rnn_tanh_cell(f({2, 3}), f({2, 4}), {f({4, 4}), f({4, 4})}); }},
      {"lstm_cell", "cell", [] { lstm_cell(f({2, 3}), f({2, 4}), f({2, 3}), {f({16, 3}), f({16, 4})}); }},
      {"gru_cell", "weights.hidden_bias", [] { gru_cell(f({2, 3}), f({2, 4}), {f({12, 3}), f({12, 4}), f({12}), f({4})}); }},
  });
}

TEST(BadInput, Convolutions) {
  expect_refused({
      {"conv1d", "x", [] { conv1d(f({2, 3}), f({4, 3, 3})); }},
      {"conv2d", "weight", [] { conv2d(f({1, 3, 5, 5}), f({4, 2, 3, 3})); }},
      {"conv2d", "weight", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3})); }},
      {"conv2d", "weight", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 0, 3})); }},
      {"conv2d", "bias", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), f({3})); }},
      {"conv2d", "x", [] { conv2d(f({1, 3, 2, 5}), f({4, 3, 3, 3})); }},
      {"conv2d", "stride", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.stride = {0}}); }},
      {"conv2d", "stride", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.stride = {1, 1, 1}}); }},
      {"conv2d", "padding", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.padding = {-1}}); }},
      {"conv2d", "dilation", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.dilation = {huge}}); }},
      {"conv2d", "groups", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.groups = 0}); }},
      {"conv2d", "groups", [] { conv2d(f({1, 3, 5, 5}), f({4, 3, 3, 3}), {}, {.groups = huge}); }},
      {"conv2d", "weight", [] { conv2d(f({1, 4, 5, 5}), f({3, 2, 3, 3}), {}, {.groups = 2}); }},
      {"conv2d", "inputs", [] { conv2d(f({1, 3, 5, 5}), h({4, 3, 3, 3})); }},
      {"conv2d", "inputs", [] { conv2d(f({1, 3, 5, 5}), m({4, 3, 3, 3})); }},
      {"conv3d", "x", [] { conv3d(i({1, 3, 5, 5, 5}), f({4, 3, 3, 3, 3})); }},
      {"conv_transpose1d", "output_padding", [] { conv_transpose1d(f({1, 2, 5}), f({2, 3, 3}), {}, {.output_padding = {1}}); }},
      {"conv_transpose2d", "weight", [] { conv_transpose2d(f({1, 2, 5, 5}), f({3, 3, 3, 3})); }},
      {"conv_transpose2d", "bias", [] { conv_transpose2d(f({1, 2, 5, 5}), f({2, 3, 3, 3}), f({2})); }},
      {"conv_transpose1d", "x", [] { conv_transpose1d(f({1, 2, 1}), f({2, 3, 1}), {}, {.padding = {3}}); }},
      {"max_pool", "x", [] { max_pool(f({2, 3})); }},
      {"max_pool", "x", [] { max_pool(i({1, 2, 4})); }},
      {"max_pool", "kernel", [] { max_pool(f({1, 2, 4}), {.kernel = {5}}); }},
      {"max_pool", "kernel", [] { max_pool(f({1, 2, 4}), {.kernel = {0}}); }},
      {"max_pool", "kernel", [] { max_pool(f({1, 2, 4}), {.kernel = {2}, .padding = {2}}); }},
      {"avg_pool", "stride", [] { avg_pool(f({1, 2, 4}), {.kernel = {2}, .stride = {-1}}); }},
      {"global_avg_pool", "x", [] { global_avg_pool(f({2, 3})); }},
      {"upsample_nearest2d", "size", [] { upsample_nearest2d(f({1, 2, 3, 3}), 0, 3); }},
      {"upsample_bilinear2d", "x", [] { upsample_bilinear2d(f({2, 3, 3}), 3, 3); }},
      {"grid_sampler", "grid", [] { grid_sampler(f({1, 2, 3, 3}), f({1, 2, 2, 3})); }},
  });
}

TEST(BadInput, Windows) {
  constexpr int64_t far = (int64_t{1} << 24) + 1;
  expect_refused({
      {"adaptive_avg_pool", "x", [] { adaptive_avg_pool(f({2, 3}), {1}); }},
      {"adaptive_avg_pool", "sizes", [] { adaptive_avg_pool(f({1, 2, 4, 4}), {2, 2, 2}); }},
      {"adaptive_avg_pool", "sizes", [] { adaptive_avg_pool(f({1, 2, 4, 4}), {}); }},
      {"adaptive_avg_pool", "sizes", [] { adaptive_avg_pool(f({1, 2, 4, 4}), {2, 0}); }},
      {"adaptive_max_pool", "sizes", [] { adaptive_max_pool(f({1, 2, 4}), {-1}); }},
      {"adaptive_max_pool", "sizes", [] { adaptive_max_pool(f({1, 2, 0}), {1}); }},
      {"unfold", "x", [] { unfold(f({2, 4, 4}), {}); }},
      {"unfold", "kernel", [] { unfold(f({1, 2, 4, 4}), {.kernel = {5, 1}}); }},
      {"unfold", "kernel", [] { unfold(f({1, 2, 4, 4}), {.kernel = {1, 5}}); }},
      {"unfold", "kernel", [] { unfold(f({1, 2, 4, 4}), {.kernel = {3}, .dilation = {2}}); }},
      {"unfold", "kernel", [] { unfold(f({1, 2, 4, 4}), {.kernel = {2, 0}}); }},
      {"unfold", "kernel", [] { unfold(f({1, 2, 4, 4}), {.kernel = {1, 1, 1}}); }},
      {"unfold", "stride", [] { unfold(f({1, 2, 4, 4}), {.stride = {0}}); }},
      {"unfold", "stride", [] { unfold(f({1, 2, 4, 4}), {.stride = {far, 1}}); }},
      {"unfold", "padding", [] { unfold(f({1, 2, 4, 4}), {.padding = {0, -1}}); }},
      {"unfold", "dilation", [] { unfold(f({1, 2, 4, 4}), {.dilation = {1, far}}); }},
      {"fold", "columns", [] { fold(f({2, 3}), 2, 2, {}); }},
      {"fold", "columns", [] { fold(f({1, 8, 8}), 4, 4, {}); }},
      {"fold", "columns", [] { fold(f({1, 6, 9}), 4, 4, {}); }},
      {"fold", "height, width", [] { fold(f({1, 8, 9}), 0, 4, {}); }},
      {"fold", "height, width", [] { fold(f({1, 8, 9}), 4, 0, {}); }},
  });
  EXPECT_EQ(unfold(f({1, 2, 4, 4}), {.kernel = {4, 1}}).shape(), Shape({1, 8, 4}));
  EXPECT_EQ(unfold(f({1, 2, 4, 4}), {.kernel = {3}, .padding = {0, 1}, .dilation = {1, 2}}).shape(), Shape({1, 18, 4}));
  EXPECT_EQ(fold(f({1, 8, 9}), 4, 4, {}).shape(), Shape({1, 2, 4, 4}));
  EXPECT_EQ(adaptive_avg_pool(f({0, 2, 4, 4}), {3, 2}).shape(), Shape({0, 2, 3, 2}));
  EXPECT_EQ(adaptive_max_pool(f({1, 2, 4, 4}), {3}).shape(), Shape({1, 2, 3, 3}));
}

TEST(BadInput, Norms) {
  expect_refused({
      {"layer_norm", "x", [] { layer_norm(f({3, 0})); }},
      {"layer_norm", "x", [] { layer_norm(f({})); }},
      {"layer_norm", "weight", [] { layer_norm(f({2, 3}), f({2})); }},
      {"layer_norm", "weight", [] { layer_norm(f({2, 3}), i({3})); }},
      {"layer_norm", "bias", [] { layer_norm(f({2, 3}), {}, f({4})); }},
      {"layer_norm", "eps", [] { layer_norm(f({2, 3}), {}, {}, -1e-5); }},
      {"layer_norm", "eps", [] { layer_norm(f({2, 3}), {}, {}, nan); }},
      {"layer_norm", "inputs", [] { layer_norm(f({2, 3}), m({3})); }},
      {"rms_norm", "eps", [] { rms_norm(f({2, 3}), {}, infinity); }},
      {"rms_norm", "x", [] { rms_norm(i({2, 3})); }},
      {"residual_layer_norm", "residual", [] { residual_layer_norm(f({2, 3}), f({3, 3}), {}, {}); }},
      {"residual_rms_norm", "residual", [] { residual_rms_norm(f({2, 3}), i({2, 3}), {}); }},
      {"batch_norm", "x", [] { batch_norm(f({3}), {}, {}, {}, {}, {.training = true}); }},
      {"batch_norm", "x", [] { batch_norm(f({1, 3}), {}, {}, {}, {}, {.training = true}); }},
      {"batch_norm", "running statistics", [] { batch_norm(f({2, 3}), {}, {}, {}, {}, {.training = false}); }},
      {"batch_norm", "running_mean", [] { batch_norm(f({2, 3}), {}, {}, f({2}), f({3}), {.training = true}); }},
      {"batch_norm", "running_variance", [] { batch_norm(f({2, 3}), {}, {}, f({3}), m({3}), {.training = true}); }},
      {"batch_norm", "momentum", [] { batch_norm(f({2, 3}), {}, {}, f({3}), f({3}), {.training = true, .momentum = nan}); }},
      {"group_norm", "groups", [] { group_norm(f({2, 4, 3}), 3); }},
      {"group_norm", "groups", [] { group_norm(f({2, 4, 3}), 0); }},
      {"group_norm", "weight", [] { group_norm(f({2, 4, 3}), 2, f({2})); }},
  });
}

void sdpa(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {}) {
  scaled_dot_product_attention(q, k, v, options);
}

void rotate(const Tensor& x, int64_t start, int64_t rotated) {
  const auto [cosine, sine] = rope_tables(4, 6);
  rope(x, cosine, sine, start, rotated);
}

TEST(BadInput, Transformers) {
  const char* attention = "scaled_dot_product_attention";
  expect_refused({
      {"softmax", "axis", [] { softmax(f({2, 3}), 2); }},
      {"softmax", "axis", [] { softmax(f({}), 0); }},
      {"log_softmax", "x", [] { log_softmax(i({3})); }},
      {"logsumexp", "x", [] { logsumexp(none); }},
      {attention, "q", [] { sdpa(f({2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4})); }},
      {attention, "k", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 5}), f({1, 2, 3, 5})); }},
      {attention, "v", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 5, 4})); }},
      {attention, "heads", [] { sdpa(f({1, 3, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4})); }},
      {attention, "heads", [] { sdpa(f({1, 3, 3, 4}), f({1, 0, 3, 4}), f({1, 0, 3, 4})); }},
      {attention, "inputs", [] { sdpa(f({1, 2, 3, 4}), h({1, 2, 3, 4}), h({1, 2, 3, 4})); }},
      {attention, "scale", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}), {.scale = nan}); }},
      {attention, "mask", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}), {.mask = f({2, 3})}); }},
      {attention, "mask", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}), {.mask = i({3, 3})}); }},
      {attention, "dropout", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}), {.dropout = 1.5}); }},
      {attention, "documents", [] { sdpa(f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4}), {.documents = {0, 3}}); }},
      {"varlen_attention", "q", [] { varlen_attention(f({1, 3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 3}}); }},
      {"varlen_attention", "k", [] { varlen_attention(f({3, 3, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 3}}); }},
      {"varlen_attention", "k", [] { varlen_attention(f({3, 2, 4}), f({4, 2, 4}), f({4, 2, 4}), {{0, 3}}); }},
      {"varlen_attention", "queries", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {}); }},
      {"varlen_attention", "queries", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 2}}); }},
      {"varlen_attention", "queries", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 5, 2, 3}}); }},
      {"varlen_attention", "queries", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{1, 3}}); }},
      {"varlen_attention", "queries", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 4}}); }},
      {"varlen_attention", "k", [] { varlen_attention(f({3, 2, 4}), i({3, 2, 4}), f({3, 2, 4}), {{0, 3}}); }},
      {"varlen_attention", "v", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({2, 4}), {{0, 3}}); }},
      {"varlen_attention", "keys", [] { varlen_attention(f({3, 2, 4}), f({5, 2, 4}), f({5, 2, 4}), {{0, 3}, {0, 3}}); }},
      {"varlen_attention", "keys", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 3}, {0, 1, 3}}); }},
      {"varlen_attention", "mask", [] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {{0, 3}}, {.mask = f({3, 3})}); }},
      {"packed_attention", "documents", [] { packed_attention(f({2, 3, 12}), 2, 1, {.documents = {0, 3}}); }},
      {"packed_attention", "documents", [] { packed_attention(f({2, 3, 12}), 2, 1, {.documents = {-1, 6}}); }},
      {"packed_attention", "qkv", [] { packed_attention(f({2, 3, 10}), 2, 1); }},
      {"packed_attention", "qkv", [] { packed_attention(f({2, 12}), 2, 1); }},
      {"packed_attention", "heads", [] { packed_attention(f({2, 3, 12}), 3, 2); }},
      {"packed_attention", "heads", [] { packed_attention(f({2, 3, 12}), huge, huge); }},
      {"packed_attention", "scale", [] { packed_attention(f({2, 3, 12}), 2, 1, {.causal = true, .scale = infinity}); }},
      {"rope", "x", [] { rotate(f({2, 3, 6}), 0, -1); }},
      {"rope", "cosine", [] { rotate(f({2, 3, 2, 8}), 0, -1); }},
      {"rope", "start", [] { rotate(f({2, 3, 2, 6}), 2, -1); }},
      {"rope", "start", [] { rotate(f({2, 3, 2, 6}), -1, -1); }},
      {"rope", "start", [] { rotate(f({2, 3, 2, 6}), std::numeric_limits<int64_t>::max(), -1); }},
      {"rope", "rotated", [] { rotate(f({2, 3, 2, 6}), 0, 3); }},
      {"rope", "sine", [] { rope(f({2, 3, 2, 6}), rope_tables(4, 6).first, f({3, 3})); }},
      {"rope", "cosine", [] { rope(f({2, 3, 2, 6}), d({4, 3}), d({4, 3})); }},
      {"rope", "cosine", [] { rotate(m({2, 3, 2, 6}), 0, -1); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(4, 5); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(0, 4); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(4, 0); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(4, 1); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(4, 4, 0); }},
      {"rope_tables", "positions, dim, theta", [] { rope_tables(4, 4, infinity); }},
  });
}

// Of a prediction and its target the wrong one is named, with what it is.
TEST(BadInput, LossesTellTheirInputsApart) {
  using Loss = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Loss> losses[] = {
      {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }},
      {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }},
      {"smooth_l1_loss", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }},
      {"huber_loss", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }},
      {"bce_with_logits", [](const Tensor& x, const Tensor& y) { return bce_with_logits(x, y); }},
      {"binary_cross_entropy", [](const Tensor& x, const Tensor& y) { return binary_cross_entropy(x, y); }},
      {"kl_div", [](const Tensor& x, const Tensor& y) { return kl_div(x, y); }},
  };
  for (const auto& [name, loss] : losses) {
    const auto refusal = [&loss = loss](const Tensor& x, const Tensor& y) { return test::error_of([&] { loss(x, y); }); };
    const std::string op = name;
    EXPECT_EQ(refusal(f({2, 3}), f({3})).substr(0, op.size() + 37), op + ": target: expected [2, 3], found [3] ") << refusal(f({2, 3}), f({3}));
    EXPECT_TRUE(refusal(i({2}), f({2})).starts_with(op + ": x: expected ")) << refusal(i({2}), f({2}));
    EXPECT_TRUE(refusal(f({2}), i({2})).starts_with(op + ": target: expected ")) << refusal(f({2}), i({2}));
  }
}

TEST(BadInput, OffsetsAreNamedFromFirstToLast) {
  const auto refusal = [](const std::vector<int64_t>& offsets) {
    return test::error_of([&] { varlen_attention(f({3, 2, 4}), f({3, 2, 4}), f({3, 2, 4}), {offsets}); });
  };
  EXPECT_EQ(refusal({0, 1, 2}), "varlen_attention: queries: expected ascending offsets from 0 to 3, found 0 to 2");
  EXPECT_EQ(refusal({1, 3}), "varlen_attention: queries: expected ascending offsets from 0 to 3, found 1 to 3");
  EXPECT_EQ(refusal({0, 5, 2, 3}), "varlen_attention: queries: expected ascending offsets from 0 to 3, found 5 before 2");
}

TEST(BadInput, Losses) {
  expect_refused({
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), i({2}, 3)); }},
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), i({2}, -1)); }},
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), i({3})); }},
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), f({2})); }},
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), m({2}, DType::i64)); }},
      {"cross_entropy", "target", [] { cross_entropy(f({2, 3}), none); }},
      {"cross_entropy", "logits", [] { cross_entropy(i({2, 3}), i({2})); }},
      {"cross_entropy", "logits", [] { cross_entropy(f({}), i({})); }},
      {"cross_entropy", "smoothing", [] { cross_entropy(f({2, 3}), i({2}), {.smoothing = 1.5}); }},
      {"cross_entropy", "smoothing", [] { cross_entropy(f({2, 3}), i({2}), {.smoothing = nan}); }},
      {"cross_entropy", "classes", [] { cross_entropy(f({2, 0}), i({2})); }},
      {"linear_cross_entropy", "x", [] { linear_cross_entropy(f({2, 3}), f({5, 4}), i({2})); }},
      {"linear_cross_entropy", "weight", [] { linear_cross_entropy(f({2, 3}), f({3}), i({2})); }},
      {"linear_cross_entropy", "target", [] { linear_cross_entropy(f({2, 3}), f({5, 3}), i({2}, 5)); }},
      {"linear_cross_entropy", "reduce", [] { linear_cross_entropy(f({2, 3}), f({5, 3}), i({2}), {.reduce = Reduce::none}); }},
      {"linear_cross_entropy", "inputs", [] { linear_cross_entropy(f({2, 3}), h({5, 3}), i({2})); }},
      {"nll_loss", "target", [] { nll_loss(f({4, 3}), i({2})); }},
      {"nll_loss", "target", [] { nll_loss(f({2, 3}), i({2}, 3)); }},
      {"nll_loss", "log_probabilities", [] { nll_loss(f({}), i({})); }},
      {"mse_loss", "target", [] { mse_loss(f({2, 3}), f({3})); }},
      {"mse_loss", "inputs", [] { mse_loss(f({2}), m({2})); }},
      {"l1_loss", "x", [] { l1_loss(i({2}), f({2})); }},
      {"smooth_l1_loss", "beta", [] { smooth_l1_loss(f({2}), f({2}), Reduce::mean, -1); }},
      {"smooth_l1_loss", "beta", [] { smooth_l1_loss(f({2}), f({2}), Reduce::mean, infinity); }},
      {"huber_loss", "delta", [] { huber_loss(f({2}), f({2}), Reduce::mean, 0); }},
      {"huber_loss", "delta", [] { huber_loss(f({2}), f({2}), Reduce::mean, nan); }},
      {"bce_with_logits", "target", [] { bce_with_logits(f({2}), f({3})); }},
      {"bce_with_logits", "pos_weight", [] { bce_with_logits(f({3}), f({3}), Reduce::mean, f({2, 3})); }},
      {"kl_div", "target", [] { kl_div(f({2}), none); }},
      {"margin_ranking_loss", "margin", [] { margin_ranking_loss(f({2}), f({2}), f({2}), nan); }},
      {"multi_margin_loss", "target", [] { multi_margin_loss(f({2, 3}), i({2}, 3)); }},
      {"soft_margin_loss", "input", [] { soft_margin_loss(f({2}), i({2})); }},
      {"soft_margin_loss", "operands", [] { soft_margin_loss(f({2}), f({3})); }},
      {"triplet_margin_loss", "margin", [] { triplet_margin_loss(f({2}), f({2}), f({2}), infinity); }},
      {"triplet_margin_loss", "operands", [] { triplet_margin_loss(f({2}), f({2}), f({3})); }},
      {"hinge_embedding_loss", "margin", [] { hinge_embedding_loss(f({2}), f({2}), nan); }},
      {"multi_margin_loss", "target", [] { multi_margin_loss(f({2, 3}), i({3})); }},
      {"multi_margin_loss", "x", [] { multi_margin_loss(f({3}), i({3})); }},
      {"binary_cross_entropy", "target", [] { binary_cross_entropy(f({2}), f({3})); }},
      {"ctc_loss", "log_probs", [] { ctc_loss(f({4, 3}), i({2, 2}, 1), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({2}, 1), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({3, 2}, 1), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), f({2, 2}), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 3), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, -1), {{4, 4}, {2, 2}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 0), {{4, 4}, {0, 1}}); }},
      {"ctc_loss", "targets", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 4}, {2, 2}}, {.blank = 1}); }},
      {"ctc_loss", "blank", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 4}, {2, 2}}, {.blank = 3}); }},
      {"ctc_loss", "blank", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 4}, {2, 2}}, {.blank = -1}); }},
      {"ctc_loss", "input lengths", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 5}, {2, 2}}); }},
      {"ctc_loss", "input lengths", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4}, {2, 2}}); }},
      {"ctc_loss", "target lengths", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 4}, {3, 2}}); }},
      {"ctc_loss", "target lengths", [] { ctc_loss(f({4, 2, 3}), i({2, 2}, 1), {{4, 4}, {2, -1}}); }},
      {"cosine_similarity", "axis", [] { cosine_similarity(f({2, 3}), f({2, 3}), 2); }},
      {"cosine_similarity", "operands", [] { cosine_similarity(f({2, 3}), f({3, 3})); }},
      {"cosine_similarity", "eps", [] { cosine_similarity(f({3}), f({3}), 0, nan); }},
      {"cdist", "operands", [] { cdist(f({2, 3}), f({2, 4})); }},
      {"cdist", "operands", [] { cdist(f({3, 2, 3}), f({2, 2, 3})); }},
      {"cross", "axis", [] { cross(f({2, 4}), f({2, 4})); }},
      {"cross", "b", [] { cross(f({2, 3}), f({3})); }},
  });
}

}  // namespace
}  // namespace binade::bad_input
