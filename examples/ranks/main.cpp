// A small network learns y = sin(3 x) on [-1, 1] on as many processes as there are:
//   mpirun -n 2 ranks
// Each step has eight micro-batches, which they share. The losses are the same for any number of
// processes up to eight.
#include <binade/binade.h>

#include <cstdio>

using namespace binade;

int main() {
  const auto ranks = ranks::init();  // one process if no launcher started more
  nn::Sequential model{std::make_unique<nn::Linear>(
                           nn::LinearConfig{.in = 1, .out = 256, .activation = Activation::gelu}),
                       std::make_unique<nn::Linear>(
                           nn::LinearConfig{.in = 256, .out = 256, .activation = Activation::gelu}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 256, .out = 1})};

  const ranks::Partition partition(model.parameters(), ranks->size());
  optim::AdamW optimizer(model.parameters(),
                         {.lr = 3e-3, .master = {.parts = partition.parts(ranks->rank())}});
  amp::GradScaler scaler({.enabled = false});
  ranks::Sharded sharded(model, optimizer, ranks, partition, {.micro_batches = 8});

  ranks::ShardedStep done;
  for (uint64_t step = 0; step < 60; ++step) {
    done = sharded.step(scaler, 1.0, [&](int64_t micro) {
      const Tensor x =
          rand({16, 1}, {.seed = 7, .stream = step * 8 + static_cast<uint64_t>(micro)}) * 2.0 - 1.0;
      return mse_loss(model(x), sin(x * 3.0));
    });
    if (ranks->rank() == 0 && step % 10 == 9)
      std::printf("step %2d  loss %.9g\n", static_cast<int>(step), done.loss);
  }
  std::fflush(stdout);
  ranks->finalize();
  return done.loss < 0.1 ? 0 : 1;
}
