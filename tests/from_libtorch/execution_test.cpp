// Programs of LibTorch's documentation about precision, devices, threads and other libraries, with
// Binade's names. docs/from-libtorch.md lists them.
#include <binade/binade.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace binade;

namespace {

// Autocast: matmuls in bf16, losses in f32, weights unchanged.
TEST(FromLibTorchExecution, Autocast) {
  nn::Linear model(64, 8);
  const Tensor x = randn({4, 64});
  const Tensor reference = model(x);
  Tensor y, loss;
  {
    const amp::Autocast cast(DType::bf16);
    y = model(x);
    loss = mse_loss(y, zeros({4, 8}));
  }
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_EQ(model.weight.dtype(), DType::f32);
  // Both operands and the result round once: three relative errors of half an epsilon.
  const Tensor size = matmul(abs(x), transpose(abs(model.weight), 0, 1)) + abs(model.bias);
  const Tensor bound = size * (3 * 0.5 * epsilon(DType::bf16) * 1.01);
  EXPECT_TRUE(all(abs(cast(y, DType::f32) - reference) <= bound).item() != 0);
  loss.backward();
  EXPECT_EQ(model.weight.grad().dtype(), DType::f32);
}

// Mixed precision as PyTorch's recipe has it in Python: f16 with a loss scaler.
TEST(FromLibTorchExecution, GradScaler) {
  manual_seed(6);
  nn::Linear model(8, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});
  amp::GradScaler scaler({.init_scale = 0x1p24});  // too large for f16: the first steps are skipped
  const Tensor x = randn({32, 8}), y = matmul(x, randn({8, 1}));
  double first = 0, last = 0;
  int skipped = 0;
  for (int step = 0; step < 120; ++step) {
    optimizer.zero_grad();
    const Tensor loss = [&] {
      const amp::Autocast cast(DType::f16);
      return mse_loss(model(x), y);
    }();
    scaler.scale(loss).backward();
    scaler.unscale(optimizer);
    optim::clip_grad_norm(model.parameters(), 10.0);
    const amp::StepReport report = scaler.step(optimizer);
    skipped += report.applied() ? 0 : 1;
    scaler.update();
    last = loss.item();
    if (step == 0) first = last;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(scaler.get_scale(), 0x1p24);
  EXPECT_LT(last, 0.01 * first);
}

// Using the C++ Frontend: a model and its data on a GPU if there is one.
TEST(FromLibTorchExecution, ChoosesTheDevice) {
  const Device device = backend::gpus().empty() ? Device::cpu() : Device::cuda();
  nn::Linear model(4, 2);
  const Tensor x = randn({3, 4});
  const Tensor expected = model(x);
  model.to(device);
  const Tensor y = to(model(to(x, device)), Device::cpu());
  EXPECT_LE(max(abs(y - expected)).item(), 1e-5);
}

// CPU threading: the number of threads, and a parallel loop.
TEST(FromLibTorchExecution, Threads) {
  const int before = threads();
  const Tensor x = randn({200, 300}, {1, 1});
  set_threads(1);
  const Tensor serial = matmul(x, transpose(x, 0, 1));
  set_threads(2);
  EXPECT_EQ(threads(), 2);
  EXPECT_TRUE(equal(matmul(x, transpose(x, 0, 1)), serial)) << "the same bits";
  std::vector<double> squares(1000);
  parallel_for(1000, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      squares[static_cast<size_t>(i)] = static_cast<double>(i * i);
  });
  EXPECT_EQ(squares[999], 999.0 * 999);
  set_threads(before);
}

// DLPack: memory shared with another library, in both directions.
TEST(FromLibTorchExecution, DLPackExchange) {
  const Tensor x = rand({3, 4});
  const Tensor y = from_dlpack(to_dlpack(x));
  fill_(y[0], 5);
  EXPECT_EQ(x[0][3].item(), 5);
  EXPECT_EQ(x.data<float>(), y.data<float>());
}

}  // namespace
