// Programs of LibTorch's documentation of modules, with Binade's names. docs/from-libtorch.md lists
// them.
#include <binade/binade.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>

using namespace binade;

namespace {

using ::testing::ElementsAre;

std::vector<std::string> parameter_names(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) names.push_back(name);
  return names;
}

// Using the C++ Frontend: a module that owns its parameters.
TEST(FromLibTorchModules, Parameters) {
  struct Net : nn::Module {
    Net(int64_t n, int64_t m) : w(randn({n, m})), b(randn({m})) {
      add_parameter("W", w);
      add_parameter("b", b);
    }
    Tensor forward(const Tensor& input) { return addmm(b, input, w); }

    Tensor w, b;
  };
  Net net(4, 5);
  EXPECT_THAT(parameter_names(net), ElementsAre("W", "b"));
  const Tensor input = ones({2, 4});
  const Tensor output = net.forward(input);
  EXPECT_LE(max(abs(output - (sum(net.w, 0) + net.b))).item(), 8 * epsilon(DType::f32) * 8);
  sum(output).backward();
  EXPECT_THAT(to_vector(net.b.grad()), ElementsAre(2, 2, 2, 2, 2)) << "once per row of the batch";
}

// Using the C++ Frontend: submodules, and all parameters of the tree.
TEST(FromLibTorchModules, Submodules) {
  struct Net : nn::Layer {
    Net(int64_t n, int64_t m)
        : linear({.in = n, .out = m, .bias = false}), another_bias(randn({m})) {
      add_child("linear", linear);
      add_parameter("b", another_bias);
    }
    Tensor forward(const Tensor& input) override { return linear(input) + another_bias; }

    nn::Linear linear;
    Tensor another_bias;
  };
  Net net(4, 5);
  EXPECT_THAT(parameter_names(net), ElementsAre("b", "linear.weight"));
  EXPECT_EQ(net.parameter_count(), 4 * 5 + 5);
  EXPECT_EQ(net(ones({2, 4})).shape(), (Shape{2, 5}));
  std::ostringstream out;
  out << net;
  EXPECT_EQ(out.str(), "Net, 25 parameters\n  linear: Linear(4, 5, no bias), 20 parameters\n");
}

// Using the C++ Frontend: training mode and its end.
TEST(FromLibTorchModules, TrainingMode) {
  nn::Sequential net{std::make_unique<nn::Linear>(8, 8), std::make_unique<nn::Dropout>(0.5)};
  const Tensor x = ones({4, 8});
  EXPECT_TRUE(net.training());
  EXPECT_FALSE(equal(net(x), net(x)));
  net.eval();
  EXPECT_FALSE(net.training());
  EXPECT_FALSE(net[1].training()) << "the whole tree";
  EXPECT_TRUE(equal(net(x), net(x)));
  net.train();
  EXPECT_TRUE(net[1].training());
}

// Containers: modules one after another, functions among them.
TEST(FromLibTorchModules, SequentialAndFunctions) {
  nn::Sequential seq{std::make_unique<nn::Conv2d>(1, 4, 3), std::make_unique<nn::ReLU>(),
                     std::make_unique<nn::Conv2d>(4, 2, 3),
                     std::make_unique<nn::Function>([](const Tensor& x) {
                       return mean(x, {2, 3});
                     })};
  const Tensor output = seq(randn({2, 1, 8, 8}));
  EXPECT_EQ(output.shape(), (Shape{2, 2}));
  EXPECT_EQ(seq.size(), 4u);
  EXPECT_EQ(parameter_names(seq).front(), "0.weight");
}

// Containers: a list of modules that the program itself calls.
TEST(FromLibTorchModules, ListOfModules) {
  struct Net : nn::Layer {
    explicit Net(const std::vector<int64_t>& widths) {
      for (size_t i = 0; i + 1 < widths.size(); ++i) {
        layers.push_back(std::make_unique<nn::Linear>(widths[i], widths[i + 1]));
        add_child("layers." + std::to_string(i), *layers.back());
      }
    }
    Tensor forward(const Tensor& input) override {
      Tensor x = input;
      for (const auto& layer : layers) x = tanh((*layer)(x));
      return x;
    }

    std::vector<std::unique_ptr<nn::Linear>> layers;
  };
  Net net({10, 20, 30});
  EXPECT_EQ(net(randn({2, 10})).shape(), (Shape{2, 30}));
  EXPECT_THAT(parameter_names(net),
              ElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"));
}

// Using the C++ Frontend, DCGAN: the generator makes images of noise.
TEST(FromLibTorchModules, DcganGenerator) {
  struct Generator : nn::Layer {
    explicit Generator(int64_t noise)
        : conv1({.in = noise, .out = 32, .kernel = {4}, .bias = false}),
          conv2({.in = 32, .out = 16, .options = {.stride = {2}, .padding = {1}}, .bias = false}),
          conv3({.in = 16,
                 .out = 8,
                 .kernel = {4},
                 .options = {.stride = {2}, .padding = {1}},
                 .bias = false}),
          conv4({.in = 8,
                 .out = 1,
                 .kernel = {4},
                 .options = {.stride = {2}, .padding = {1}},
                 .bias = false}),
          norm1(32),
          norm2(16),
          norm3(8) {
      add_child("conv1", conv1);
      add_child("conv2", conv2);
      add_child("conv3", conv3);
      add_child("conv4", conv4);
      add_child("batch_norm1", norm1);
      add_child("batch_norm2", norm2);
      add_child("batch_norm3", norm3);
    }
    Tensor forward(const Tensor& noise) override {
      Tensor x = relu(norm1(conv1(noise)));
      x = relu(norm2(conv2(x)));
      x = relu(norm3(conv3(x)));
      return tanh(conv4(x));
    }

    nn::ConvTranspose2d conv1, conv2, conv3, conv4;
    nn::BatchNorm norm1, norm2, norm3;
  };
  Generator generator(10);
  const Tensor images = generator(randn({3, 10, 1, 1}));
  EXPECT_EQ(images.shape(), (Shape{3, 1, 28, 28}));
  EXPECT_LE(max(abs(images)).item(), 1);
  sum(images).backward();
  for (const auto& [name, parameter] : generator.named_parameters())
    EXPECT_TRUE(parameter.grad().defined()) << name;
}

// Using the C++ Frontend, DCGAN: the discriminator's probability that an image is real.
TEST(FromLibTorchModules, DcganDiscriminator) {
  const auto halving = [](int64_t in, int64_t out) {
    return nn::ConvConfig{.in = in,
                          .out = out,
                          .kernel = {4},
                          .options = {.stride = {2}, .padding = {1}},
                          .bias = false};
  };
  nn::Sequential discriminator{
      std::make_unique<nn::Conv2d>(halving(1, 8)),  std::make_unique<nn::LeakyReLU>(0.2),
      std::make_unique<nn::Conv2d>(halving(8, 16)), std::make_unique<nn::BatchNorm>(16),
      std::make_unique<nn::LeakyReLU>(0.2),         std::make_unique<nn::Conv2d>(halving(16, 32)),
      std::make_unique<nn::BatchNorm>(32),          std::make_unique<nn::LeakyReLU>(0.2),
      std::make_unique<nn::Conv2d>(32, 1, 3),       std::make_unique<nn::Sigmoid>()};
  const Tensor score = reshape(discriminator(randn({4, 1, 28, 28})), {-1});
  EXPECT_EQ(score.shape(), (Shape{4}));
  EXPECT_GT(min(score).item(), 0);
  EXPECT_LT(max(score).item(), 1);
}

// DCGAN example and Utilities: initial values by the name of the parameter.
TEST(FromLibTorchModules, Initialization) {
  nn::Sequential net{std::make_unique<nn::Conv2d>(16, 64, 4), std::make_unique<nn::BatchNorm>(64)};
  nn::init::apply(net, "0.weight", [](const Tensor& w) { nn::init::normal_(w, 0, 0.02); });
  nn::init::apply(net, "*.bias", [](const Tensor& b) { nn::init::constant_(b, 0); });
  const Tensor weight = net.named_parameters()[0].second;
  const double count = static_cast<double>(weight.numel());
  EXPECT_NEAR(mean(weight).item(), 0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(binade::std(weight).item(), 0.02, 5 * 0.02 / std::sqrt(2 * count));
  EXPECT_EQ(sum(abs(net.named_parameters()[1].second)).item(), 0);
}

// Utilities: a copy of a module with weights of its own.
TEST(FromLibTorchModules, Copies) {
  nn::Linear model(10, 5), copy(10, 5);
  copy.load_state_dict(model.state_dict());
  const Tensor x = randn({2, 10}), y = model(x);
  EXPECT_TRUE(equal(copy(x), y));
  nn::init::constant_(model.weight, 0);
  EXPECT_TRUE(equal(copy(x), y));
  EXPECT_FALSE(equal(model(x), y));
}

// Recurrent Layers: an LSTM of two layers and directions, and one that continues a sequence.
TEST(FromLibTorchModules, Lstm) {
  nn::LSTM lstm({.in = 12,
                 .hidden = 16,
                 .layers = 2,
                 .batch_first = true,
                 .dropout = 0.1,
                 .bidirectional = true});
  const auto [output, state] = lstm(randn({3, 10, 12}));
  EXPECT_EQ(output.shape(), (Shape{3, 10, 2 * 16}));
  EXPECT_EQ(state.hidden.shape(), (Shape{2 * 2, 3, 16}));
  EXPECT_EQ(state.cell.shape(), state.hidden.shape());

  nn::LSTM one({.in = 12, .hidden = 16});
  const Tensor x = randn({10, 3, 12});
  const nn::RecurrentResult whole = one(x);
  const nn::RecurrentResult first = one(slice(x, 0, 0, 6)),
                            rest = one(slice(x, 0, 6, 10), first.state);
  EXPECT_LE(max(abs(cat({first.output, rest.output}, 0) - whole.output)).item(), 1e-6);
}

// Embedding Layers and Recurrent Layers: a GRU learns which of two words a sentence starts with.
TEST(FromLibTorchModules, SentencesByGru) {
  struct Classifier : nn::Module {
    Classifier()
        : embedding(20, 8), gru({.in = 8, .hidden = 12, .batch_first = true}), head(12, 2) {
      add_child("embedding", embedding);
      add_child("gru", gru);
      add_child("head", head);
    }
    Tensor forward(const Tensor& words) { return head(gru(embedding(words)).state.hidden[-1]); }

    nn::Embedding embedding;
    nn::GRU gru;
    nn::Linear head;
  };
  manual_seed(2);
  Classifier model;
  optim::Adam optimizer(model.parameters(), {.lr = 0.02});
  const Tensor first = randint(0, 2, {64, 1}), words = cat({first, randint(2, 20, {64, 4})}, 1);
  double loss_value = 0;
  EXPECT_NEAR(cross_entropy(model.forward(words), reshape(first, {64})).item(), std::log(2), 0.3);
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model.forward(words), reshape(first, {64}));
    loss.backward();
    optimizer.step();
    loss_value = loss.item();
  }
  EXPECT_LT(loss_value, 0.05);
}

// Transformer Layers: attention in which a position sees itself and what is before it.
TEST(FromLibTorchModules, AttentionWithAMask) {
  nn::MaskedAttention attention({.width = 16, .heads = 4, .batch_first = true});
  const Tensor x = randn({2, 6, 16}), later = clone(x);
  index_put_(later, {Slice(), Slice(4)}, 0);
  const Tensor hidden = triu(ones({6, 6}), 1) == 1;  // true: not seen
  const Tensor y = attention(x, x, x, {.attention = hidden});
  EXPECT_LE(max(abs(attention(x, x, x, {.causal = true}) - y)).item(), 1e-5);
  const Tensor z = attention(later, later, later, {.attention = hidden});
  const auto head = [](const Tensor& t) { return index(t, {Slice(), Slice({}, 4)}); };
  EXPECT_LE(max(abs(head(z) - head(y))).item(), 1e-6) << "later positions do not matter";
  EXPECT_GT(max(abs(z - y)).item(), 0.01);
}

}  // namespace
