// A small network learns y = sin(3 x) on [-1, 1], in f32.
#include <binade/binade.h>

#include <cstdio>

using namespace binade;

int main() {
  // Braces, not parentheses: layers draw their starting weights in the order they are made.
  nn::Sequential model{std::make_unique<nn::Linear>(
                           nn::LinearConfig{.in = 1, .out = 32, .activation = Activation::gelu}),
                       std::make_unique<nn::Linear>(
                           nn::LinearConfig{.in = 32, .out = 32, .activation = Activation::gelu}),
                       std::make_unique<nn::Linear>(nn::LinearConfig{.in = 32, .out = 1})};
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});

  const int steps = 300;
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor x = rand({64, 1}, {.seed = 7, .stream = static_cast<uint64_t>(step)}) * 2.0 - 1.0;
    const Tensor y = sin(x * 3.0);

    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();

    loss_value = loss.item();
    if (step % 50 == 0 || step == steps - 1) std::printf("step %3d  loss %.6f\n", step, loss_value);
  }
  return loss_value < 1e-2 ? 0 : 1;
}
