// Programs of LibTorch's documentation and examples that train, with Binade's names.
// docs/from-libtorch.md lists them.
#include <binade/binade.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "io/temporary_folder.h"

using namespace binade;

namespace {

// Stands for MNIST: 28 x 28 images with a bright square whose place is the digit, and noise.
class Digits : public data::Dataset {
 public:
  explicit Digits(int64_t count, uint64_t seed) : count_(count), seed_(seed) {}
  int64_t size() const override { return count_; }
  data::Sample get(int64_t index) const override {
    const int64_t digit = index % 10, row = 2 + 9 * (digit / 4), column = 1 + 7 * (digit % 4);
    const Tensor image = rand({1, 28, 28}, {seed_, static_cast<uint64_t>(index)}) * 0.5;
    index_put_(image, {0, Slice(row, row + 6), Slice(column, column + 5)}, 1);
    return {image, tensor(digit)};
  }

 private:
  int64_t count_;
  uint64_t seed_;
};

// The C++ Frontend: the end-to-end example, a network of three linear layers on MNIST.
TEST(FromLibTorchTraining, EndToEnd) {
  struct Net : nn::Layer {
    Net() {
      add_child("fc1", fc1);
      add_child("fc2", fc2);
      add_child("fc3", fc3);
    }
    Tensor forward(const Tensor& image) override {
      Tensor x = relu(fc1(reshape(image, {image.size(0), 784})));
      x = dropout(x, 0.5, training());
      x = relu(fc2(x));
      return log_softmax(fc3(x), 1);
    }

    nn::Linear fc1{784, 64}, fc2{64, 32}, fc3{32, 10};
  };
  manual_seed(1);
  Net net;
  data::DataLoader loader(std::make_shared<Digits>(320, 1), {.batch = 32, .shuffle = true});
  optim::SGD optimizer(net.parameters(), {.lr = 0.2});
  double first = 0, last = 0;
  for (int epoch = 1; epoch <= 12; ++epoch) {
    for (const data::Sample& batch : loader) {
      optimizer.zero_grad();
      const Tensor prediction = net(batch[0]);
      const Tensor loss = nll_loss(prediction, batch[1]);
      loss.backward();
      optimizer.step();
      last = loss.item();
      if (first == 0) first = last;
    }
  }
  EXPECT_NEAR(first, std::log(10), 0.3) << "before training all digits are as likely";
  EXPECT_LT(last, 0.5 * first);
}

// examples/cpp/regression: a polynomial of degree 4.
TEST(FromLibTorchTraining, Regression) {
  manual_seed(3);
  const int64_t degree = 4;
  const Tensor target_weight = randn({degree, 1}) * 5, target_bias = randn({1}) * 5;
  const auto features = [](const Tensor& x) {
    return stack({x, pow(x, 2), pow(x, 3), pow(x, 4)}, 1);
  };
  nn::Linear fc(degree, 1);
  optim::SGD optimizer(fc.parameters(), {.lr = 0.1});
  double loss_value = 0;
  int steps = 0;
  do {
    const Tensor x = features(randn({32}));
    const Tensor y = matmul(x, target_weight) + target_bias;
    optimizer.zero_grad();
    const Tensor output = smooth_l1_loss(fc(x), y);
    output.backward();
    optimizer.step();
    loss_value = output.item();
  } while (loss_value >= 1e-3 && ++steps < 5000);
  EXPECT_LT(loss_value, 1e-3) << steps;
  EXPECT_LE(max(abs(reshape(fc.weight, {-1}) - reshape(target_weight, {-1}))).item(), 0.2);
}

// examples/cpp/mnist: a convolutional network, trained and tested.
TEST(FromLibTorchTraining, Mnist) {
  struct Net : nn::Layer {
    Net() : conv1(1, 10, 5), conv2(10, 20, 5), drop(0.5), fc1(320, 50), fc2(50, 10) {
      add_child("conv1", conv1);
      add_child("conv2", conv2);
      add_child("conv2_drop", drop);
      add_child("fc1", fc1);
      add_child("fc2", fc2);
    }
    Tensor forward(const Tensor& image) override {
      Tensor x = relu(max_pool(conv1(image)));
      x = relu(max_pool(drop(conv2(x))));
      x = relu(fc1(reshape(x, {-1, 320})));
      x = dropout(x, 0.5, training());
      return log_softmax(fc2(x), 1);
    }

    nn::Conv2d conv1, conv2;
    nn::Dropout drop;
    nn::Linear fc1, fc2;
  };
  manual_seed(1);
  Net model;
  data::DataLoader train_loader(std::make_shared<Digits>(320, 1), {.batch = 32, .shuffle = true});
  data::DataLoader test_loader(std::make_shared<Digits>(100, 2), {.batch = 50});
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.5});
  for (int epoch = 0; epoch < 6; ++epoch) {
    model.train();
    for (const data::Sample& batch : train_loader) {
      optimizer.zero_grad();
      nll_loss(model(batch[0]), batch[1]).backward();
      optimizer.step();
    }
  }
  const NoGrad no_grad;
  model.eval();
  double correct = 0;
  for (const data::Sample& batch : test_loader) {
    const Tensor prediction = argmax(model(batch[0]), 1);
    correct += sum(prediction == batch[1]).item();
  }
  EXPECT_GE(correct, 90) << "of 100";
}

// examples/cpp/custom-dataset: samples of one's own, loaded by several threads.
TEST(FromLibTorchTraining, CustomDataset) {
  class Squares : public data::Dataset {
   public:
    int64_t size() const override { return 100; }
    data::Sample get(int64_t index) const override {
      return {full({2}, static_cast<double>(index)), tensor(index * index)};
    }
  };
  data::DataLoader loader(std::make_shared<Squares>(), {.batch = 16, .workers = 2});
  EXPECT_EQ(loader.size(), 7);
  int64_t seen = 0;
  for (const data::Sample& batch : loader) {
    const Tensor number = index(batch[0], {Slice(), 0});
    EXPECT_TRUE(equal(cast(square(number), DType::i64), batch[1]));
    EXPECT_EQ(number[0].item(), static_cast<double>(seen)) << "in order without shuffle";
    seen += batch[1].numel();
  }
  EXPECT_EQ(seen, 100);
}

// Data API, Transforms: normalized images, stacked to a batch.
TEST(FromLibTorchTraining, Transforms) {
  const double mean_of_images = 0.3, deviation = 0.25;
  const auto normalized = [=](const std::vector<data::Sample>& samples) {
    data::Sample batch = data::stack_samples(samples);
    batch[0] = (batch[0] - mean_of_images) / deviation;
    return batch;
  };
  const auto dataset = std::make_shared<Digits>(20, 1);
  data::DataLoader loader(dataset, {.batch = 8, .drop_last = true, .collate = normalized});
  EXPECT_EQ(loader.size(), 2);
  const data::Sample batch = *loader.next();
  EXPECT_EQ(batch[0].shape(), (Shape{8, 1, 28, 28}));
  EXPECT_NEAR(max(batch[0]).item(), (1 - 0.3) / 0.25, 1e-6);
  const Tensor restored = batch[0][3] * deviation + mean_of_images;
  EXPECT_LE(max(abs(restored - dataset->get(3)[0])).item(), 4 * epsilon(DType::f32));
}

// Using the C++ Frontend, DCGAN: two networks, two optimizers and one loop.
TEST(FromLibTorchTraining, DcganLoop) {
  manual_seed(4);
  nn::Sequential generator{std::make_unique<nn::Linear>(4, 16), std::make_unique<nn::ReLU>(),
                           std::make_unique<nn::Linear>(16, 2)};
  nn::Sequential discriminator{
      std::make_unique<nn::Linear>(2, 16), std::make_unique<nn::LeakyReLU>(0.2),
      std::make_unique<nn::Linear>(16, 1), std::make_unique<nn::Sigmoid>()};
  optim::Adam generator_optimizer(generator.parameters(), {.lr = 5e-3, .beta1 = 0.5});
  optim::Adam discriminator_optimizer(discriminator.parameters(), {.lr = 5e-3, .beta1 = 0.5});
  const auto distance = [&] {  // of the generated points' center from the real ones'
    const NoGrad no_grad;
    return norm(mean(generator(randn({256, 4})), 0) - 2).item();
  };
  const double before = distance();
  for (int step = 0; step < 150; ++step) {
    // The discriminator on real points, then on generated ones.
    discriminator.zero_grad();
    const Tensor real = randn({64, 2}) * 0.2 + 2;
    const Tensor real_labels = rand({64, 1}) * 0.2 + 0.8;
    binary_cross_entropy(discriminator(real), real_labels).backward();
    const Tensor fake = generator(randn({64, 4}));
    binary_cross_entropy(discriminator(fake.detach()), zeros({64, 1})).backward();
    discriminator_optimizer.step();
    // The generator against the discriminator.
    generator.zero_grad();
    binary_cross_entropy(discriminator(fake), ones({64, 1})).backward();
    generator_optimizer.step();
  }
  EXPECT_LT(distance(), 0.5 * before);
}

// Using the C++ Frontend: checkpoints of a model and its optimizer.
TEST(FromLibTorchTraining, Checkpoint) {
  const binade::testing::TemporaryFolder folder;
  const auto step = [](nn::Linear& model, optim::Optimizer& optimizer, uint64_t number) {
    optimizer.zero_grad();
    mean(square(model(randn({8, 4}, {1, number})))).backward();
    optimizer.step();
  };
  nn::Linear model(4, 2);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (uint64_t i = 0; i < 3; ++i) step(model, optimizer, i);
  io::save_safetensors(folder / "model.safetensors", model.state_dict());
  io::save_safetensors(folder / "optimizer.safetensors", optimizer.state_dict());
  for (uint64_t i = 3; i < 6; ++i) step(model, optimizer, i);

  nn::Linear resumed(4, 2);
  optim::Adam resumed_optimizer(resumed.parameters(), {.lr = 0.01});
  resumed.load_state_dict(io::load_safetensors(folder / "model.safetensors"));
  resumed_optimizer.load_state_dict(io::load_safetensors(folder / "optimizer.safetensors"));
  for (uint64_t i = 3; i < 6; ++i) step(resumed, resumed_optimizer, i);
  EXPECT_TRUE(equal(resumed.weight, model.weight)) << "bit for bit";
  EXPECT_TRUE(equal(resumed.bias, model.bias));
}

// Optimizers: parameter groups with options of their own.
TEST(FromLibTorchTraining, ParameterGroups) {
  nn::Linear base(2, 2), head(2, 1);
  optim::SGD optimizer(std::vector<optim::SgdGroup>{
      {base.parameters(), {.lr = 0.01}}, {head.parameters(), {.lr = 0.1, .momentum = 0.9}}});
  EXPECT_EQ(optimizer.group_count(), 2u);
  const Tensor base_before = clone(base.weight.detach()), head_before = clone(head.weight.detach());
  for (const Tensor& parameter : optimizer.parameters()) parameter.set_grad(ones_like(parameter));
  optimizer.step();
  const double tolerance = 2 * epsilon(DType::f32);
  EXPECT_NEAR(max(base_before - base.weight).item(), 0.01, tolerance);
  EXPECT_NEAR(max(head_before - head.weight).item(), 0.1, tolerance);
  optimizer.set_lr(0.001);  // of the first group; the second keeps its ratio to it
  EXPECT_DOUBLE_EQ(optimizer.lr(1), 0.01);
  optimizer.set_group_lr(1, 0.5);
  EXPECT_DOUBLE_EQ(optimizer.lr(1), 0.5);
}

// Learning Rate Schedulers: StepLR, ExponentialLR and ReduceLROnPlateau.
TEST(FromLibTorchTraining, Schedules) {
  nn::Linear model(2, 1);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  for (int epoch = 0; epoch < 90; ++epoch) {
    optimizer.set_lr(0.1 * std::pow(0.1, epoch / 30));
    const double expected = epoch < 30 ? 0.1 : epoch < 60 ? 0.01 : 0.001;
    EXPECT_DOUBLE_EQ(optimizer.lr(), expected);
  }
  for (int epoch = 0; epoch < 3; ++epoch) optimizer.set_lr(0.1 * std::pow(0.95, epoch));
  EXPECT_NEAR(optimizer.lr(), 0.09025, 1e-12);

  optimizer.set_lr(0.1);
  optim::ReduceOnPlateau plateau(optimizer, {.factor = 0.5, .patience = 2});
  for (const double validation_loss : {1.0, 0.9, 0.9, 0.9, 0.9}) plateau.step(validation_loss);
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.05) << "after three evaluations without improvement";
}

// examples/cpp/transfer-learning: a trained network whose layers stay, with a new last one.
TEST(FromLibTorchTraining, TransferLearning) {
  manual_seed(5);
  struct Net : nn::Layer {
    Net() {
      add_child("features", features);
      add_child("fc", fc);
    }
    Tensor forward(const Tensor& x) override { return fc(features(x)); }

    nn::Sequential features{std::make_unique<nn::Linear>(6, 16), std::make_unique<nn::Tanh>()};
    nn::Linear fc{16, 3};
  };
  Net net;
  for (Tensor parameter : net.features.parameters()) parameter.set_requires_grad(false);
  const auto frozen = to_vector(net.features.parameters()[0]);
  optim::Adam optimizer(net.fc.parameters(), {.lr = 0.05});
  const Tensor x = randn({90, 6}), target = argmax(index(x, {Slice(), Slice({}, 3)}), 1);
  const double before = cross_entropy(net(x), target).item();
  for (int step = 0; step < 80; ++step) {
    optimizer.zero_grad();
    cross_entropy(net(x), target).backward();
    optimizer.step();
  }
  EXPECT_LT(cross_entropy(net(x), target).item(), 0.3 * before);
  EXPECT_EQ(to_vector(net.features.parameters()[0]), frozen);
  EXPECT_FALSE(net.features.parameters()[0].grad().defined());
}

// Neural Network Utilities: gradients limited to a norm.
TEST(FromLibTorchTraining, ClippedGradients) {
  nn::Linear model(4, 4);
  sum(model(full({8, 4}, 100))).backward();
  const double before = optim::clip_grad_norm(model.parameters(), 1.0).item();
  EXPECT_NEAR(before, std::sqrt(16 * 800.0 * 800 + 4 * 8.0 * 8), 0.01);
  EXPECT_NEAR(optim::grad_norm(model.parameters()).item(), 1, 1e-5);
}

}  // namespace
