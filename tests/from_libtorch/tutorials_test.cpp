// Programs in the manner of LibTorch's and PyTorch's tutorials, as their readers type them but for
// the include and the namespace: small, and with data made here where they would be downloaded.
#include <binade/torch.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace torch = binade::torch;
namespace F = torch::nn::functional;

namespace {

// ---- a network for digits, trained by a data loader ----

struct DigitNet : torch::nn::Module {
  DigitNet() {
    fc1 = register_module("fc1", torch::nn::Linear(64, 32));
    fc2 = register_module("fc2", torch::nn::Linear(32, 16));
    fc3 = register_module("fc3", torch::nn::Linear(16, 4));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(fc1->forward(x.reshape({x.size(0), 64})));
    x = torch::dropout(x, /*p=*/0.1, /*train=*/is_training());
    x = torch::relu(fc2->forward(x));
    return torch::log_softmax(fc3->forward(x), /*dim=*/1);
  }

  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};

// Images [1, 8, 8] with a bright quarter, which is the label, and noise.
class DigitImages : public torch::data::datasets::Dataset<DigitImages> {
 public:
  explicit DigitImages(int64_t count) {
    labels_ = torch::randint(0, 4, {count});
    images_ = torch::rand({count, 1, 8, 8}) * 0.5;
    for (int64_t n = 0; n < count; ++n) {
      const auto label = labels_[n].item<int64_t>();
      const int64_t top = label / 2 * 4, left = label % 2 * 4;
      images_[n][0].slice(0, top, top + 4).slice(1, left, left + 4) += 0.75;
    }
  }
  torch::data::Example<> get(size_t index) override {
    return {images_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(images_.size(0)); }

 private:
  torch::Tensor images_, labels_;
};

TEST(FromLibTorchTutorial, DigitsWithTheFrontend) {
  torch::manual_seed(1);
  auto net = std::make_shared<DigitNet>();
  auto data_loader =
      torch::data::make_data_loader(DigitImages(256).map(torch::data::transforms::Stack<>()),
                                    torch::data::DataLoaderOptions().batch_size(32).workers(2));
  torch::optim::SGD optimizer(net->parameters(), /*lr=*/0.2);

  float last = 0;
  for (size_t epoch = 1; epoch <= 8; ++epoch) {
    for (auto& batch : *data_loader) {
      optimizer.zero_grad();
      torch::Tensor prediction = net->forward(batch.data);
      torch::Tensor loss = torch::nll_loss(prediction, batch.target);
      loss.backward();
      optimizer.step();
      last = loss.item<float>();
    }
  }
  EXPECT_LT(last, 0.1);

  net->eval();
  torch::NoGradGuard no_grad;
  DigitImages test(64);
  auto test_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      test.map(torch::data::transforms::Normalize<>(0.0, 1.0))
          .map(torch::data::transforms::Stack<>()),
      /*batch_size=*/48);
  int64_t correct = 0, seen = 0;
  for (const auto& batch : *test_loader) {
    auto pred = net->forward(batch.data).argmax(1);
    correct += pred.eq(batch.target).sum().item<int64_t>();
    seen += batch.data.size(0);
  }
  EXPECT_EQ(seen, 64);
  EXPECT_GE(correct, 62);
}

// ---- a generative adversarial network ----

struct GeneratorImpl : torch::nn::Module {
  explicit GeneratorImpl(int noise_size)
      : conv1(torch::nn::ConvTranspose2dOptions(noise_size, 16, 4).bias(false)),
        batch_norm1(16),
        conv2(torch::nn::ConvTranspose2dOptions(16, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("batch_norm1", batch_norm1);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(batch_norm1(conv1(x)));
    return torch::tanh(conv2(x));
  }

  torch::nn::ConvTranspose2d conv1;
  torch::nn::BatchNorm2d batch_norm1;
  torch::nn::ConvTranspose2d conv2;
};
TORCH_MODULE(Generator);

TEST(FromLibTorchTutorial, GenerativeAdversarialNetwork) {
  torch::manual_seed(2);
  const int64_t noise_size = 8, batch_size = 16;
  torch::Device device(torch::kCPU);

  Generator generator(noise_size);
  generator->to(device);
  torch::nn::Sequential discriminator(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 4).stride(2).padding(1).bias(false)),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 4).bias(false)),
      torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 1, 1)), torch::nn::Sigmoid());
  discriminator->to(device);

  const auto before = generator->conv2->weight.clone();
  torch::optim::Adam generator_optimizer(
      generator->parameters(), torch::optim::AdamOptions(2e-3).betas(std::make_tuple(0.5, 0.9)));
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(),
                                             torch::optim::AdamOptions(2e-3).betas({0.5, 0.9}));

  // Real images are bright on the left, all of them: a batch norm in the discriminator would hide
  // it.
  torch::Tensor real_images = torch::full({batch_size, 1, 8, 8}, -0.8);
  real_images.slice(3, 0, 4).fill_(0.8);
  float first = 0, lowest = 1e9f;  // the discriminator's loss
  for (int64_t step = 0; step < 30; ++step) {
    discriminator->zero_grad();
    torch::Tensor real = real_images + 0.1 * torch::randn_like(real_images);
    torch::Tensor real_labels = torch::empty({batch_size, 1, 1, 1}).uniform_(0.8, 1.0);
    torch::Tensor real_output = discriminator->forward(real);
    torch::Tensor d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
    d_loss_real.backward();

    torch::Tensor noise = torch::randn({batch_size, noise_size, 1, 1}, device);
    torch::Tensor fake_images = generator->forward(noise);
    torch::Tensor fake_labels = torch::zeros({batch_size, 1, 1, 1}, device);
    torch::Tensor fake_output = discriminator->forward(fake_images.detach());
    torch::Tensor d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
    d_loss_fake.backward();
    discriminator_optimizer.step();

    generator->zero_grad();
    fake_labels.fill_(1);
    fake_output = discriminator->forward(fake_images);
    torch::Tensor g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
    g_loss.backward();
    generator_optimizer.step();

    const float d_loss = (d_loss_real + d_loss_fake).item<float>();
    if (step == 0) first = d_loss;
    lowest = std::min(lowest, d_loss);
  }
  torch::NoGradGuard no_grad;
  torch::Tensor samples = generator->forward(torch::randn({batch_size, noise_size, 1, 1}));
  EXPECT_EQ(samples.sizes(), torch::IntArrayRef({batch_size, 1, 8, 8}));
  EXPECT_TRUE(samples.isfinite().all().item<bool>());
  EXPECT_LE(samples.abs().max().item<float>(), 1);
  EXPECT_LT(lowest, 0.9f * first);
  EXPECT_FALSE(torch::equal(generator->conv2->weight, before));
}

// ---- autograd ----

TEST(FromLibTorchTutorial, Autograd) {
  auto x = torch::ones({2, 2}, torch::requires_grad());
  auto y = x + 2;
  auto z = y * y * 3;
  auto out = z.mean();
  EXPECT_EQ(out.item<float>(), 27);
  out.backward();
  EXPECT_TRUE(torch::allclose(x.grad(), torch::full({2, 2}, 4.5)));

  auto a = torch::randn({2, 2});
  a = ((a * 3) / (a - 1));
  EXPECT_FALSE(a.requires_grad());
  a.requires_grad_(true);
  auto b = (a * a).sum();
  EXPECT_TRUE(b.requires_grad());

  x = torch::tensor({1.0, -0.5, 0.25}, torch::requires_grad());
  y = x * 2;
  while (y.norm().item<double>() < 1000) y = y * 2;
  auto v = torch::tensor({0.1, 1.0, 0.0001}, torch::kFloat);
  y.backward(v);
  EXPECT_TRUE(torch::allclose(x.grad(), 1024 * v));  // |x| is 1.146: ten doublings

  EXPECT_TRUE(x.pow(2).requires_grad());
  {
    torch::NoGradGuard no_grad;
    EXPECT_FALSE(x.pow(2).requires_grad());
  }
  y = x.detach();
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(x.eq(y).all().item<bool>());

  x = torch::full({1}, 3.0, torch::requires_grad());
  auto gradient = torch::autograd::grad({(x * x).sum()}, {x});
  EXPECT_EQ(gradient[0].item<float>(), 6);

  auto model = torch::nn::Linear(4, 3);
  auto input = torch::randn({3, 4});
  auto target = torch::randn({3, 3});
  auto loss = torch::nn::MSELoss()(model(input), target);
  loss.backward();
  EXPECT_TRUE(model->weight.grad().defined());
}

// ---- a function with its own backward ----

class LegendrePolynomial3 : public torch::autograd::Function<LegendrePolynomial3> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor input) {
    ctx->save_for_backward({input});
    return 0.5 * (5 * input.pow(3) - 3 * input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grad_output) {
    auto saved = ctx->get_saved_variables();
    auto input = saved[0];
    return {grad_output[0] * 1.5 * (5 * input.pow(2) - 1)};
  }
};

TEST(FromLibTorchTutorial, CustomFunction) {
  auto x = torch::linspace(-M_PI, M_PI, 200);
  auto y = torch::sin(x);
  auto a = torch::full({}, 0.0, torch::requires_grad());
  auto b = torch::full({}, -1.0, torch::requires_grad());
  auto c = torch::full({}, 0.0, torch::requires_grad());
  auto d = torch::full({}, 0.3, torch::requires_grad());
  const double learning_rate = 5e-5;
  double first = 0, last = 0;
  for (int t = 0; t < 1000; ++t) {
    auto y_pred = a + b * LegendrePolynomial3::apply(c + d * x);
    auto loss = (y_pred - y).pow(2).sum();
    if (t == 0) first = loss.item<double>();
    last = loss.item<double>();
    loss.backward();
    torch::NoGradGuard no_grad;
    for (auto& p : {a, b, c, d}) {
      p.sub_(learning_rate * p.grad());
      p.zero_grad();
    }
  }
  EXPECT_LT(last, 20);
  EXPECT_LT(last, first / 4);
}

// ---- fitting a polynomial, with a module, an optimizer and a schedule ----

TEST(FromLibTorchTutorial, PolynomialWithModulesAndOptimizer) {
  torch::manual_seed(4);
  auto x = torch::linspace(-M_PI, M_PI, 400);
  auto y = torch::sin(x);
  auto p = torch::tensor({1, 2, 3});
  auto xx = x.unsqueeze(-1).pow(p);
  EXPECT_EQ(xx.sizes(), torch::IntArrayRef({400, 3}));

  torch::nn::Sequential model(
      torch::nn::Linear(3, 1),
      torch::nn::Flatten(torch::nn::FlattenOptions().start_dim(0).end_dim(1)));
  torch::nn::MSELoss loss_fn(torch::nn::MSELossOptions().reduction(torch::kSum));
  torch::optim::RMSprop optimizer(model->parameters(), torch::optim::RMSpropOptions(1e-2));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/300, /*gamma=*/0.3);
  for (int t = 0; t < 1200; ++t) {
    auto y_pred = model->forward(xx);
    auto loss = loss_fn(y_pred, y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    scheduler.step();
  }
  EXPECT_LT(loss_fn(model->forward(xx), y).item<double>(), 12);
  EXPECT_NEAR(scheduler.get_current_lr()[0], 1e-2 * 0.0081, 1e-9);
  auto& linear = model->at<torch::nn::LinearImpl>(0);
  EXPECT_NEAR(linear.weight[0][0].item<double>(), 0.85, 0.1);  // of sin's best cubic
}

}  // namespace
