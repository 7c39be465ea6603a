// Programs in the manner of PyTorch's tutorials on sequences, fine-tuning and mixed precision; see
// tutorials_test.cpp.
#include <binade/torch.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace torch = binade::torch;
namespace F = torch::nn::functional;

namespace {

// ---- a recurrent network that classifies words by their letters ----

struct CharRNN : torch::nn::Module {
  CharRNN(int64_t input_size, int64_t hidden_size, int64_t output_size) : hidden_size(hidden_size) {
    i2h = register_module("i2h", torch::nn::Linear(input_size, hidden_size));
    h2h = register_module("h2h", torch::nn::Linear(hidden_size, hidden_size));
    h2o = register_module("h2o", torch::nn::Linear(hidden_size, output_size));
    softmax = register_module("softmax", torch::nn::LogSoftmax(1));
  }
  std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor input, torch::Tensor hidden) {
    hidden = torch::tanh(i2h(input) + h2h(hidden));
    return {softmax(h2o(hidden)), hidden};
  }
  torch::Tensor initHidden() { return torch::zeros({1, hidden_size}); }

  int64_t hidden_size;
  torch::nn::Linear i2h{nullptr}, h2h{nullptr}, h2o{nullptr};
  torch::nn::LogSoftmax softmax{nullptr};
};

torch::Tensor lineToTensor(const std::string& line) {
  auto tensor = torch::zeros({static_cast<int64_t>(line.size()), 1, 26});
  for (size_t li = 0; li < line.size(); ++li)
    tensor[static_cast<int64_t>(li)][0][line[li] - 'a'] = 1;
  return tensor;
}

TEST(FromLibTorchTutorial, NamesByTheirLetters) {
  torch::manual_seed(5);
  const std::vector<std::vector<std::string>> categories{
      {"kovalski", "nowak", "wolski", "zielinski", "malinowski", "kaminski"},
      {"rossi", "bianchi", "romano", "ferrari", "moretti", "gallo"},
      {"tanaka", "suzuki", "yamamoto", "nakamura", "kobayashi", "sato"}};
  CharRNN rnn(26, 24, 3);
  torch::nn::NLLLoss criterion;
  torch::optim::Adam optimizer(rnn.parameters(), 1e-2);

  const auto evaluate = [&](const std::string& name) {
    auto hidden = rnn.initHidden();
    torch::Tensor output;
    const auto line = lineToTensor(name);
    for (int64_t i = 0; i < line.size(0); ++i)
      std::tie(output, hidden) = rnn.forward(line[i], hidden);
    return output;
  };
  for (int iter = 0; iter < 270; ++iter) {
    const int64_t category = iter % 3;
    const auto& names = categories[static_cast<size_t>(category)];
    rnn.zero_grad();
    auto output = evaluate(names[static_cast<size_t>(iter / 3) % names.size()]);
    auto loss = criterion(output, torch::tensor({category}));
    loss.backward();
    torch::nn::utils::clip_grad_norm_(rnn.parameters(), 5.0);
    optimizer.step();
  }
  torch::NoGradGuard no_grad;
  int correct = 0;
  for (int64_t category = 0; category < 3; ++category) {
    for (const auto& name : categories[static_cast<size_t>(category)]) {
      auto [topv, topi] = evaluate(name).topk(1);
      correct += topi[0][0].item<int64_t>() == category;
    }
  }
  EXPECT_GE(correct, 14);
}

// ---- a language model of words: embedding, LSTM, decoder ----

struct RNNModelImpl : torch::nn::Module {
  RNNModelImpl(int64_t ntoken, int64_t ninp, int64_t nhid, int64_t nlayers)
      : drop(torch::nn::DropoutOptions(0.1)),
        encoder(ntoken, ninp),
        rnn(torch::nn::LSTMOptions(ninp, nhid).num_layers(nlayers).dropout(0.1)),
        decoder(nhid, ntoken),
        ntoken(ntoken),
        nhid(nhid),
        nlayers(nlayers) {
    register_module("drop", drop);
    register_module("encoder", encoder);
    register_module("rnn", rnn);
    register_module("decoder", decoder);
    torch::nn::init::uniform_(encoder->weight, -0.1, 0.1);
    torch::nn::init::zeros_(decoder->bias);
  }
  using State = std::tuple<torch::Tensor, torch::Tensor>;
  std::tuple<torch::Tensor, State> forward(torch::Tensor input, State hidden) {
    auto emb = drop(encoder(input));
    auto [output, next] = rnn(emb, hidden);
    auto decoded = decoder(drop(output));
    return {decoded.view({-1, ntoken}), next};
  }
  State init_hidden(int64_t bsz) {
    auto weight = parameters()[0];
    return {weight.new_zeros({nlayers, bsz, nhid}), weight.new_zeros({nlayers, bsz, nhid})};
  }

  torch::nn::Dropout drop;
  torch::nn::Embedding encoder;
  torch::nn::LSTM rnn;
  torch::nn::Linear decoder;
  int64_t ntoken, nhid, nlayers;
};
TORCH_MODULE(RNNModel);

torch::Tensor batchify(torch::Tensor data, int64_t bsz) {
  const int64_t nbatch = data.size(0) / bsz;
  data = data.narrow(0, 0, nbatch * bsz);
  return data.view({bsz, -1}).t().contiguous();
}

TEST(FromLibTorchTutorial, WordLanguageModel) {
  torch::manual_seed(6);
  std::vector<int64_t> ids;  // a text that repeats with a long period
  for (int64_t n = 0; n < 1200; ++n) ids.push_back((n * n + 3 * n) % 11);
  auto train_data = batchify(torch::tensor(ids), 8);
  const int64_t bptt = 10;
  RNNModel model(11, 16, 32, 2);
  torch::nn::CrossEntropyLoss criterion;
  torch::optim::Adam optimizer(model->parameters(), 1e-2);

  double last = 0;
  for (int epoch = 0; epoch < 6; ++epoch) {
    model->train();
    auto hidden = model->init_hidden(8);
    for (int64_t i = 0; i + 1 < train_data.size(0); i += bptt) {
      const int64_t seq_len = std::min(bptt, train_data.size(0) - 1 - i);
      auto data = train_data.slice(0, i, i + seq_len);
      auto targets = train_data.slice(0, i + 1, i + 1 + seq_len).reshape({-1});
      model->zero_grad();
      hidden = {std::get<0>(hidden).detach(), std::get<1>(hidden).detach()};
      torch::Tensor output;
      std::tie(output, hidden) = model->forward(data, hidden);
      auto loss = criterion(output, targets);
      loss.backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 0.25);
      optimizer.step();
      last = loss.item<double>();
    }
  }
  EXPECT_LT(std::exp(last), 2.5);  // perplexity; guessing has 11
}

// ---- a transformer block ----

struct PositionalEncodingImpl : torch::nn::Module {
  PositionalEncodingImpl(int64_t d_model, int64_t max_len) {
    auto position = torch::arange(max_len, torch::kFloat).unsqueeze(1);
    auto div_term = torch::exp(torch::arange(0, d_model, 2).to(torch::kFloat) *
                               (-std::log(10000.0) / static_cast<double>(d_model)));
    auto table = torch::zeros({max_len, 1, d_model});
    table.index_put_({Slice(), 0, Slice(0, None, 2)}, torch::sin(position * div_term));
    table.index_put_({Slice(), 0, Slice(1, None, 2)}, torch::cos(position * div_term));
    pe = register_buffer("pe", table);
  }
  torch::Tensor forward(torch::Tensor x) { return x + pe.slice(0, 0, x.size(0)); }

  using Slice = torch::indexing::Slice;
  static constexpr auto None = torch::indexing::None;
  torch::Tensor pe;
};
TORCH_MODULE(PositionalEncoding);

struct TransformerModelImpl : torch::nn::Module {
  TransformerModelImpl(int64_t ntoken, int64_t d_model, int64_t nhead)
      : embedding(ntoken, d_model), pos_encoder(d_model, 32), decoder(d_model, ntoken) {
    register_module("embedding", embedding);
    register_module("pos_encoder", pos_encoder);
    layers = register_module("layers", torch::nn::ModuleList());
    for (int n = 0; n < 2; ++n) {
      layers->push_back(torch::nn::TransformerEncoderLayer(
          torch::nn::TransformerEncoderLayerOptions(d_model, nhead)
              .dim_feedforward(64)
              .dropout(0)));
    }
    register_module("decoder", decoder);
  }
  torch::Tensor forward(torch::Tensor src) {
    auto mask = torch::triu(torch::full({src.size(0), src.size(0)}, -1e9), 1);
    auto x = pos_encoder(embedding(src) * std::sqrt(16.0));
    for (const auto& layer : *layers)
      x = layer->as<torch::nn::TransformerEncoderLayer>()->forward(x, mask);
    return decoder(x);
  }

  torch::nn::Embedding embedding;
  PositionalEncoding pos_encoder;
  torch::nn::ModuleList layers{nullptr};
  torch::nn::Linear decoder;
};
TORCH_MODULE(TransformerModel);

TEST(FromLibTorchTutorial, TransformerBlocks) {
  torch::manual_seed(7);
  TransformerModel model(9, 16, 2);
  torch::nn::CrossEntropyLoss criterion;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(5e-3));
  torch::optim::CosineAnnealingLR scheduler(optimizer, 80, 5e-4);
  double last = 0;
  for (int step = 0; step < 80; ++step) {
    std::vector<torch::Tensor> lines{torch::randint(0, 9, {16})};
    for (int n = 0; n < 7; ++n) lines.push_back((lines.back() * 2 + 1) % 9);
    auto text = torch::stack(lines);  // [time, batch]
    auto output = model(text.slice(0, 0, 7));
    auto loss = criterion(output.reshape({-1, 9}), text.slice(0, 1).reshape({-1}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    scheduler.step();
    last = loss.item<double>();
  }
  EXPECT_LT(last, 0.5);  // guessing has 2.2
  // The mask hides what comes later.
  auto text = torch::randint(0, 9, {6, 2});
  auto shown = model(text);
  text[5].fill_(0);
  EXPECT_TRUE(torch::allclose(model(text).slice(0, 0, 5), shown.slice(0, 0, 5), 1e-4, 1e-5));
  EXPECT_EQ(model->named_buffers().size(), 1u);
  EXPECT_NEAR(optimizer.param_groups()[0].options().get_lr(), 5e-4, 1e-9);
}

// ---- fine-tuning: a frozen base with a new head ----

TEST(FromLibTorchTutorial, FineTuningWithAFrozenBase) {
  torch::manual_seed(8);
  auto base = torch::nn::Sequential(torch::nn::Linear(6, 12), torch::nn::ReLU());
  for (auto& param : base->parameters()) param.set_requires_grad(false);
  auto head = torch::nn::Linear(12, 2);
  auto model = torch::nn::Sequential(base, head);
  std::vector<torch::Tensor> trainable;
  for (const auto& p : model->parameters()) {
    if (p.requires_grad()) trainable.push_back(p);
  }
  ASSERT_EQ(trainable.size(), 2u);
  const auto before = base->parameters()[0].clone();

  auto inputs = torch::randn({64, 6});
  auto labels = inputs.select(1, 0).gt(inputs.select(1, 1)).to(torch::kLong);
  torch::optim::SGD optimizer(trainable, torch::optim::SGDOptions(0.2).momentum(0.9));
  torch::optim::StepLR exp_lr_scheduler(optimizer, 40, 0.1);
  int64_t corrects = 0;
  for (int epoch = 0; epoch < 80; ++epoch) {
    optimizer.zero_grad();
    auto outputs = model->forward(inputs);
    auto [best, preds] = torch::max(outputs, 1);
    auto loss = F::cross_entropy(outputs, labels);
    loss.backward();
    optimizer.step();
    exp_lr_scheduler.step();
    corrects = torch::sum(preds == labels).item<int64_t>();
  }
  EXPECT_GE(corrects, 52);
  EXPECT_TRUE(torch::equal(base->parameters()[0], before));

  // Unfrozen, the base learns at a rate of its own.
  for (auto& param : base->parameters()) param.set_requires_grad(true);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup(
      base->parameters(), std::make_unique<torch::optim::SGDOptions>(1e-3)));
  optimizer.zero_grad();
  F::cross_entropy(model->forward(inputs), labels).backward();
  optimizer.step();
  EXPECT_FALSE(torch::equal(base->parameters()[0], before));
}

// ---- mixed precision with a scaled loss ----

TEST(FromLibTorchTutorial, MixedPrecisionRecipe) {
  torch::manual_seed(9);
  auto net =
      torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  torch::optim::SGD opt(net->parameters(), /*lr=*/0.05);
  torch::amp::GradScaler scaler;
  auto loss_fn = torch::nn::MSELoss();
  auto data = torch::randn({64, 16});
  auto target = data.sum(1, true) / 4;
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 60; ++epoch) {
    torch::Tensor loss;
    {
      torch::amp::Autocast autocast(torch::kFloat16);
      auto output = net->forward(data);
      EXPECT_TRUE(output.dtype() == torch::kFloat16);
      loss = loss_fn(output, target);
      EXPECT_TRUE(loss.dtype() == torch::kFloat32);
    }
    scaler.scale(loss).backward();
    scaler.unscale(opt);
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    scaler.step(opt);
    scaler.update();
    opt.zero_grad();
    if (epoch == 0) first = loss.item<double>();
    last = loss.item<double>();
  }
  EXPECT_LT(last, first / 5);
}

}  // namespace
