// Programs in the manner of PyTorch's examples, with the losses of PyTorch
// (tests/golden/tutorials.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "from_libtorch/spellings.h"

namespace {

namespace F = torch::nn::functional;
using binade::spellings::ramp;
using testing::DoubleNear;
using testing::Pointwise;
using torch::Tensor;

// Parameters that no random numbers decide, small enough for some steps.
void prepare(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  ramp(module);
  for (auto& p : module.parameters()) p.mul_(0.25);
}

Tensor wave(torch::IntArrayRef sizes, int64_t factor) {
  auto line = torch::arange(sizes.numel(), torch::kFloat);
  return ((line * factor) % 17 / 17).view(sizes);
}

// ---- variational autoencoder (examples/vae) ----

struct VAEImpl : torch::nn::Module {
  VAEImpl()
      : fc1(register_module("fc1", torch::nn::Linear(12, 8))),
        fc21(register_module("fc21", torch::nn::Linear(8, 2))),
        fc22(register_module("fc22", torch::nn::Linear(8, 2))),
        fc3(register_module("fc3", torch::nn::Linear(2, 8))),
        fc4(register_module("fc4", torch::nn::Linear(8, 12))) {}

  std::pair<Tensor, Tensor> encode(Tensor x) {
    auto h1 = torch::relu(fc1->forward(x));
    return {fc21->forward(h1), fc22->forward(h1)};
  }
  Tensor reparameterize(Tensor mu, Tensor logvar, Tensor eps) {
    auto std = logvar.mul(0.5).exp_();
    return eps.mul(std).add_(mu);
  }
  Tensor decode(Tensor z) {
    auto h3 = torch::relu(fc3->forward(z));
    return torch::sigmoid(fc4->forward(h3));
  }
  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x, Tensor eps) {
    auto [mu, logvar] = encode(x.view({-1, 12}));
    auto z = reparameterize(mu, logvar, eps);
    return std::make_tuple(decode(z), mu, logvar);
  }

  torch::nn::Linear fc1, fc21, fc22, fc3, fc4;
};
TORCH_MODULE(VAE);

Tensor vae_loss(Tensor recon_x, Tensor x, Tensor mu, Tensor logvar) {
  auto bce = F::binary_cross_entropy(recon_x, x.view({-1, 12}),
                                     F::BinaryCrossEntropyFuncOptions().reduction(torch::kSum));
  auto kld = -0.5 * torch::sum(1 + logvar - mu.pow(2) - logvar.exp());
  return bce + kld;
}

TEST(FromLibTorchTutorials, VariationalAutoencoder) {
  VAE model;
  prepare(*model);
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-2));
  auto data = wave({4, 1, 3, 4}, 5);
  std::vector<double> losses;
  model->train();
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    auto [recon, mu, logvar] = model->forward(data, wave({4, 2}, 3 + step));
    auto loss = vae_loss(recon, data, mu, logvar);
    loss.backward();
    losses.push_back(loss.item<double>());
    optimizer.step();
  }
  EXPECT_THAT(losses, Pointwise(DoubleNear(2e-4),
                                std::vector<double>{33.25722, 33.07277, 32.92371, 32.86067}));
}

// ---- policy gradient (examples/reinforcement_learning) ----

struct PolicyImpl : torch::nn::Module {
  PolicyImpl() {
    affine1 = register_module("affine1", torch::nn::Linear(4, 16));
    dropout = register_module("dropout", torch::nn::Dropout(torch::nn::DropoutOptions(0.0)));
    affine2 = register_module("affine2", torch::nn::Linear(16, 2));
  }
  Tensor forward(Tensor x) {
    x = affine1(x);
    x = dropout(x);
    x = F::relu(x);
    return F::softmax(affine2(x), F::SoftmaxFuncOptions(1));
  }

  torch::nn::Linear affine1{nullptr}, affine2{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Policy);

TEST(FromLibTorchTutorials, PolicyGradient) {
  Policy policy;
  prepare(*policy);
  torch::optim::Adam optimizer(policy->parameters(), /*lr=*/1e-2);
  std::vector<double> losses;
  for (int episode = 0; episode < 3; ++episode) {
    std::vector<Tensor> saved_log_probs;
    std::vector<float> rewards;
    auto state = wave({1, 4}, 3 + episode);
    for (int t = 0; t < 5; ++t) {
      auto probs = policy->forward(state);
      const int64_t action = t % 2;
      saved_log_probs.push_back(probs.index({0, action}).log());
      rewards.push_back(action == 0 ? 1.0f : -0.5f);
      state = torch::roll(state, 1, 1) * 0.9 + 0.1 * static_cast<double>(action);
    }
    float R = 0;
    std::vector<float> returns;
    for (auto r = rewards.rbegin(); r != rewards.rend(); ++r) {
      R = *r + 0.99f * R;
      returns.insert(returns.begin(), R);
    }
    auto returns_t = torch::tensor(returns);
    returns_t = (returns_t - returns_t.mean()) / (returns_t.std() + 1e-8);
    std::vector<Tensor> policy_loss;
    for (size_t i = 0; i < saved_log_probs.size(); ++i)
      policy_loss.push_back(
          (-saved_log_probs[i] * returns_t[static_cast<int64_t>(i)]).unsqueeze(0));
    optimizer.zero_grad();
    auto loss = torch::cat(policy_loss).sum();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_THAT(losses,
              Pointwise(DoubleNear(2e-4), std::vector<double>{0.08598244, -0.0660575, -0.233658}));
}

// ---- translation with attention (NLP From Scratch) ----

struct EncoderRNNImpl : torch::nn::Module {
  EncoderRNNImpl(int64_t input_size, int64_t hidden_size)
      : embedding(register_module("embedding", torch::nn::Embedding(input_size, hidden_size))),
        gru(register_module(
            "gru",
            torch::nn::GRU(torch::nn::GRUOptions(hidden_size, hidden_size).batch_first(true)))),
        dropout(register_module("dropout", torch::nn::Dropout(0.0))) {}
  std::tuple<Tensor, Tensor> forward(Tensor input) {
    auto embedded = dropout->forward(embedding->forward(input));
    return gru->forward(embedded);
  }

  torch::nn::Embedding embedding;
  torch::nn::GRU gru;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(EncoderRNN);

struct BahdanauAttentionImpl : torch::nn::Module {
  explicit BahdanauAttentionImpl(int64_t hidden_size)
      : Wa(hidden_size, hidden_size), Ua(hidden_size, hidden_size), Va(hidden_size, 1) {
    register_module("Wa", Wa);
    register_module("Ua", Ua);
    register_module("Va", Va);
  }
  std::tuple<Tensor, Tensor> forward(Tensor query, Tensor keys) {
    auto scores = Va(torch::tanh(Wa(query) + Ua(keys)));
    scores = scores.squeeze(2).unsqueeze(1);
    auto weights = F::softmax(scores, /*dim=*/-1);
    auto context = torch::bmm(weights, keys);
    return {context, weights};
  }

  torch::nn::Linear Wa, Ua, Va;
};
TORCH_MODULE(BahdanauAttention);

struct AttnDecoderRNNImpl : torch::nn::Module {
  AttnDecoderRNNImpl(int64_t hidden_size, int64_t output_size)
      : embedding(output_size, hidden_size),
        attention(hidden_size),
        gru(torch::nn::GRUOptions(2 * hidden_size, hidden_size).batch_first(true)),
        out(hidden_size, output_size) {
    register_module("embedding", embedding);
    register_module("attention", attention);
    register_module("gru", gru);
    register_module("out", out);
  }
  Tensor forward(Tensor encoder_outputs, Tensor encoder_hidden, Tensor target) {
    auto input = torch::zeros({encoder_outputs.size(0), 1}, torch::dtype(torch::kLong));
    auto hidden = encoder_hidden;
    std::vector<Tensor> outputs;
    for (int64_t i = 0; i < target.size(1); ++i) {
      auto embedded = embedding(input);
      auto query = hidden.permute({1, 0, 2});
      auto [context, weights] = attention(query, encoder_outputs);
      auto input_gru = torch::cat({embedded, context}, /*dim=*/2);
      Tensor output;
      std::tie(output, hidden) = gru(input_gru, hidden);
      outputs.push_back(out(output));
      input = target.index({torch::indexing::Slice(), i}).unsqueeze(1);  // teacher forcing
    }
    return F::log_softmax(torch::cat(outputs, 1), /*dim=*/-1);
  }

  torch::nn::Embedding embedding;
  BahdanauAttention attention;
  torch::nn::GRU gru;
  torch::nn::Linear out;
};
TORCH_MODULE(AttnDecoderRNN);

TEST(FromLibTorchTutorials, TranslationWithAttention) {
  EncoderRNN encoder(10, 6);
  AttnDecoderRNN decoder(6, 9);
  prepare(*encoder);
  prepare(*decoder);
  torch::optim::Adam encoder_optimizer(encoder->parameters(), 0.01);
  torch::optim::Adam decoder_optimizer(decoder->parameters(), 0.01);
  torch::nn::NLLLoss criterion;
  auto source = torch::tensor({{1, 4, 2, 9}, {3, 3, 7, 0}});
  auto target = torch::tensor({{5, 1, 8}, {2, 6, 4}});
  std::vector<double> losses;
  for (int epoch = 0; epoch < 3; ++epoch) {
    encoder_optimizer.zero_grad();
    decoder_optimizer.zero_grad();
    auto [outputs, hidden] = encoder(source);
    auto decoded = decoder(outputs, hidden, target);
    auto loss = criterion(decoded.view({-1, decoded.size(-1)}), target.view(-1));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(encoder->parameters(), 0.5);
    encoder_optimizer.step();
    decoder_optimizer.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_THAT(losses,
              Pointwise(DoubleNear(2e-4), std::vector<double>{2.208421, 2.190819, 2.174123}));
}

// ---- super-resolution with an efficient sub-pixel network (examples/super_resolution) ----

struct SuperResolutionImpl : torch::nn::Module {
  explicit SuperResolutionImpl(int64_t upscale_factor)
      : relu(),
        conv1(torch::nn::Conv2dOptions(1, 4, 5).padding(torch::kSame)),
        conv2(torch::nn::Conv2dOptions(4, 4, 3).stride(1).padding(1)),
        conv4(torch::nn::Conv2dOptions(4, upscale_factor * upscale_factor, {3, 3}).padding({1, 1})),
        pixel_shuffle(upscale_factor) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv4", conv4);
    register_module("pixel_shuffle", pixel_shuffle);
  }
  Tensor forward(Tensor x) {
    x = relu(conv1(x));
    x = relu(conv2(x));
    return pixel_shuffle(conv4(x));
  }

  torch::nn::ReLU relu;
  torch::nn::Conv2d conv1, conv2, conv4;
  torch::nn::PixelShuffle pixel_shuffle;
};
TORCH_MODULE(SuperResolution);

TEST(FromLibTorchTutorials, SuperResolutionBySubPixels) {
  SuperResolution model(2);
  prepare(*model);
  torch::nn::MSELoss criterion;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/2, /*gamma=*/0.5);
  auto target = wave({2, 1, 8, 8}, 3);
  auto input = F::interpolate(target, F::InterpolateFuncOptions()
                                          .scale_factor(std::vector<double>{0.5, 0.5})
                                          .mode(torch::kBicubic)
                                          .align_corners(false));
  std::vector<double> losses;
  for (int epoch = 0; epoch < 4; ++epoch) {
    optimizer.zero_grad();
    auto loss = criterion(model(input), target);
    loss.backward();
    optimizer.step();
    scheduler.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_THAT(losses, Pointwise(DoubleNear(2e-5),
                                std::vector<double>{0.1754658, 0.1587125, 0.1313686, 0.1164133}));
}

// ---- a transformer that classifies padded sentences ----

struct SentenceClassifierImpl : torch::nn::Module {
  SentenceClassifierImpl()
      : embedding(torch::nn::EmbeddingOptions(12, 8).padding_idx(0)),
        encoder(torch::nn::TransformerEncoderOptions(torch::nn::TransformerEncoderLayerOptions(8, 2)
                                                         .dim_feedforward(16)
                                                         .dropout(0.0)
                                                         .activation(torch::kGELU),
                                                     2)),
        fc(8, 3) {
    register_module("embedding", embedding);
    register_module("encoder", encoder);
    register_module("fc", fc);
  }
  Tensor forward(Tensor tokens) {
    auto mask = tokens.eq(0);
    auto x = embedding(tokens) * std::sqrt(8.0);
    x = encoder(x.transpose(0, 1), Tensor(), mask).transpose(0, 1);
    auto kept = mask.logical_not().unsqueeze(-1).to(torch::kFloat);
    return fc((x * kept).sum(1) / kept.sum(1));
  }

  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoder encoder;
  torch::nn::Linear fc;
};
TORCH_MODULE(SentenceClassifier);

TEST(FromLibTorchTutorials, SentencesByATransformer) {
  SentenceClassifier model;
  prepare(*model);
  {
    torch::NoGradGuard no_grad;
    model->embedding->weight[0].zero_();
  }
  torch::optim::AdamW optimizer(model->parameters(),
                                torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
  auto loss_fn =
      torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().label_smoothing(0.1));
  auto tokens = torch::tensor({{3, 5, 7, 0}, {1, 2, 0, 0}, {11, 4, 6, 8}});
  auto labels = torch::tensor({0, 2, 1});
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    auto loss = loss_fn(model->forward(tokens), labels);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  EXPECT_THAT(losses,
              Pointwise(DoubleNear(2e-4), std::vector<double>{1.102843, 1.099136, 1.096433}));
  EXPECT_EQ(model->embedding->weight[0].abs().sum().item<float>(), 0);
}

// ---- transfer: a frozen backbone and a new head ----

TEST(FromLibTorchTutorials, FrozenBackboneWithANewHead) {
  torch::nn::Sequential backbone(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1).bias(false)),
      torch::nn::BatchNorm2d(4), torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)),
      torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2)),
      torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1})),
      torch::nn::Flatten());
  torch::nn::Linear head(4, 2);
  prepare(*backbone);
  prepare(*head);
  for (auto& parameter : backbone->parameters()) parameter.requires_grad_(false);
  backbone->eval();
  head->train();
  torch::optim::Adam optimizer(head->parameters(), torch::optim::AdamOptions(1e-1));
  auto images = wave({4, 3, 8, 8}, 5);
  auto labels = torch::tensor({0, 1, 1, 0});
  std::vector<double> losses;
  int64_t correct = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    auto features = backbone->forward(images);
    auto output = head->forward(features);
    auto loss = torch::nll_loss(torch::log_softmax(output, 1), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    correct = output.argmax(1).eq(labels).sum().item<int64_t>();
    losses.push_back(loss.item<double>());
  }
  EXPECT_THAT(losses, Pointwise(DoubleNear(2e-4),
                                std::vector<double>{0.6962082, 0.6953287, 0.6956102, 0.6934043}));
  EXPECT_LE(correct, 4);
  EXPECT_FALSE(backbone->parameters()[0].grad().defined());
}

}  // namespace
