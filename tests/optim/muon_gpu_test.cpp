// Muon on a GPU: what the CPU computes, but for the rounding of the iteration's matmuls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "binade/backend/gpu.h"
#include "binade/backend/graph.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/optim/muon.h"
#include "support/values.h"

namespace binade::optim {
namespace {

// Wide, tall and square, and more of one shape than a batch has, so that the last is not full.
std::vector<Tensor> muon_matrices(DType dtype, Device device) {
  std::vector<Tensor> result;
  const std::pair<int64_t, int64_t> shapes[] = {{48, 96}, {96, 48}, {48, 96}, {64, 64}, {48, 96},
                                                {96, 48}, {48, 96}, {33, 70}, {48, 96}};
  for (const auto& [rows, columns] : shapes)
    result.push_back(
        to(cast(randn({rows, columns}, {9, result.size()}), dtype), device).set_requires_grad());
  return result;
}

void give_muon_gradients(const std::vector<Tensor>& parameters, uint64_t step) {
  for (size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_grad(
        to(randn(parameters[i].shape(), {10 + step, i}), parameters[i].device()));
}

// The largest difference between weights, in units of one step's largest possible change of an
// element: lr times the ratio times about 1.
double muon_distance(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double lr) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = to_vector(test::on_host(a[i])), y = to_vector(test::on_host(b[i]));
    const double ratio = std::sqrt(
        std::max(1.0, static_cast<double>(a[i].size(0)) / static_cast<double>(a[i].size(1))));
    for (size_t k = 0; k < x.size(); ++k)
      worst = std::max(worst, std::fabs(x[k] - y[k]) / (lr * ratio));
  }
  return worst;
}

class MuonGpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (backend::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  }
};

TEST_P(MuonGpu, UpdatesAsTheCpu) {
  const int steps = 5;
  const double lr = 0.02;
  for (const DType products : {DType::f32, DType::bf16}) {
    for (const bool split : {false, true}) {
      if (split && GetParam() != DType::bf16) continue;
      const MuonOptions options{.lr = lr, .dtype = products, .master = {.split_masters = split}};
      const auto on_gpu = muon_matrices(GetParam(), Device::cuda()),
                 on_cpu = muon_matrices(GetParam(), Device::cpu());
      Muon found(on_gpu, options), expected(on_cpu, options);
      for (int step = 0; step < steps; ++step) {
        give_muon_gradients(on_gpu, static_cast<uint64_t>(step));
        give_muon_gradients(on_cpu, static_cast<uint64_t>(step));
        found.step();
        expected.step();
      }
      // The momentum is computed element by element: the same bits.
      const StateDict mine = found.state_dict();
      for (const auto& [name, tensor] : expected.state_dict()) {
        if (!name.ends_with("first")) continue;
        EXPECT_TRUE(test::same_bits(test::on_host(mine.at(name)), tensor)) << name;
      }
      // An iteration magnifies a rounding by at most its slope at zero, 3.4445, in each of five; in
      // bf16 the largest singular values, whose slope is below 1, matter most, as beside PyTorch
      // (tests/optim/golden_test.cpp).
      std::vector<Tensor> masters_on_gpu, masters_on_cpu;
      for (const Tensor& one : on_gpu) masters_on_gpu.push_back(found.master_of(one));
      for (const Tensor& one : on_cpu) masters_on_cpu.push_back(expected.master_of(one));
      const double bound = products == DType::f32
                               ? steps * std::pow(3.4445, 5) * epsilon(DType::f32)
                               : steps * 4 * epsilon(DType::bf16);
      const double distance = muon_distance(masters_on_gpu, masters_on_cpu, lr);
      RecordProperty("distance", std::to_string(distance));
      EXPECT_LT(distance, bound) << binade::name(products);
      EXPECT_GT(distance, 0);  // they were updated by other arithmetic
    }
  }
}

// A matrix has the same bits whatever others are updated beside it, on one owner or another.
TEST_P(MuonGpu, AMatrixDoesNotDependOnTheOthers) {
  const auto all = muon_matrices(GetParam(), Device::cuda()),
             again = muon_matrices(GetParam(), Device::cuda());
  Muon together(all), alone({again[4]});
  for (uint64_t step = 0; step < 3; ++step) {
    give_muon_gradients(all, step);
    give_muon_gradients(again, step);
    together.step();
    alone.step();
  }
  EXPECT_TRUE(test::same_bits(test::on_host(all[4]), test::on_host(again[4])));
}

TEST_P(MuonGpu, ASkippedStepChangesNothing) {
  const auto matrices = muon_matrices(GetParam(), Device::cuda());
  Muon muon(matrices);
  give_muon_gradients(matrices, 0);
  muon.step();
  const StateDict before = muon.state_dict();
  std::vector<Tensor> weights;
  for (const Tensor& one : matrices) weights.push_back(test::on_host(one));
  const Tensor momentum = test::on_host(before.at("0.first"));
  give_muon_gradients(matrices, 1);
  muon.step({.skip = full({1}, 1, DType::f32, Device::cuda())});
  EXPECT_EQ(muon.steps(), 1);
  for (size_t i = 0; i < matrices.size(); ++i)
    EXPECT_TRUE(test::same_bits(test::on_host(matrices[i]), weights[i]));
  EXPECT_TRUE(test::same_bits(test::on_host(muon.state_dict().at("0.first")), momentum));
}

// A captured step is replayed with the learning rates of later steps.
TEST_P(MuonGpu, ReplaysAsItRuns) {
  const auto plain = muon_matrices(GetParam(), Device::cuda()),
             replayed = muon_matrices(GetParam(), Device::cuda());
  Muon expected(plain, {.lr = 0.02}), found(replayed, {.lr = 0.02});
  give_muon_gradients(replayed, 0);
  give_muon_gradients(plain, 0);
  expected.step();
  found.step();
  backend::Graph graph;
  {
    const Optimizer::Capture capture(found);
    graph.capture(Device::cuda(), [&] { found.step(); });
  }
  for (const double lr : {0.01, 0.03, 0.005}) {
    expected.set_lr(lr);
    found.set_lr(lr);
    expected.step();
    found.prepare_replay();
    graph.replay();
  }
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_TRUE(test::same_bits(test::on_host(replayed[i]), test::on_host(plain[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(Types, MuonGpu, ::testing::Values(DType::f32, DType::bf16));

}  // namespace
}  // namespace binade::optim
