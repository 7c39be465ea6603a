#include "binade/nn/recurrent.h"

#include <gmock/gmock.h>

#include <memory>
#include <sstream>

#include "binade/amp/autocast.h"
#include "binade/base/random.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"
#include "binade/optim/adam.h"
#include "nn/golden_modules.h"
#include "support/error_of.h"

namespace binade::nn {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Recurrent> recurrent_of(const json::Value& item) {
  const json::Value& params = item.at("params");
  const RecurrentConfig config{.in = 8,
                               .hidden = 6,
                               .layers = golden::whole(params, "num_layers", 1),
                               .bias = golden::flag(params, "bias", true),
                               .batch_first = golden::flag(params, "batch_first"),
                               .bidirectional = golden::flag(params, "bidirectional")};
  const std::string kind = item.at("kind").string();
  if (kind == "LSTM") return std::make_unique<LSTM>(config);
  if (kind == "GRU") return std::make_unique<GRU>(config);
  const bool is_relu = params.find("nonlinearity") != nullptr;
  return std::make_unique<RNN>(config, is_relu ? RnnNonlinearity::relu : RnnNonlinearity::tanh);
}

TEST(Recurrent, AgreesWithPyTorch) {
  const json::Document document = golden::cases("recurrent");
  EXPECT_EQ(document.root().array().size(), 7u);
  for (const json::Value& item : document.root().array()) {
    const std::string name = item.at("case").string();
    SCOPED_TRACE(name);
    const auto module = recurrent_of(item);
    golden::load(name, *module);
    const Tensor x = golden::input(name, "x"), hidden = golden::input(name, "hidden"),
                 cell = golden::input(name, "cell");
    const RecurrentResult result = (*module)(x, {hidden, cell});
    std::vector<std::pair<const char*, Tensor>> outputs = {{"output", result.output},
                                                           {"hidden", result.state.hidden}};
    if (result.state.cell.defined()) outputs.emplace_back("cell", result.state.cell);
    golden::check(name, *module, outputs, {{"x", x}, {"hidden", hidden}, {"cell", cell}});
  }
}

// The state after a sequence continues it.
TEST(Recurrent, ContinuesFromItsState) {
  LSTM lstm({.in = 3, .hidden = 4, .layers = 2});
  const Tensor x = randn({6, 2, 3}, {1, 1});
  const RecurrentResult whole = lstm(x), first = lstm(slice(x, 0, 0, 4)),
                        second = lstm(slice(x, 0, 4, 6), first.state);
  EXPECT_EQ(to_vector(second.state.cell), to_vector(whole.state.cell));
  EXPECT_EQ(to_vector(second.output), to_vector(slice(whole.output, 0, 4, 6)));
}

TEST(Recurrent, DropsBetweenLayersWhileTraining) {
  GRU gru({.in = 3, .hidden = 32, .layers = 2, .dropout = 0.5});
  const Tensor x = randn({4, 2, 3}, {1, 1});
  random::begin_step(1, 0);
  const auto dropped = to_vector(gru(x).output);
  gru.eval();
  const auto plain = to_vector(gru(x).output);
  EXPECT_NE(dropped, plain);
  EXPECT_EQ(to_vector(gru(x).output), plain);
  GRU one({.in = 3, .hidden = 32, .dropout = 0.5});  // has no layer after the first
  const auto in_training = to_vector(one(x).output);
  one.eval();
  EXPECT_EQ(to_vector(one(x).output), in_training);
}

TEST(Recurrent, RunsInLowPrecisionUnderAutocast) {
  LSTM lstm({.in = 8, .hidden = 16, .layers = 2, .bidirectional = true});
  const Tensor x = randn({5, 3, 8}, {1, 1});
  const auto exact = to_vector(lstm(x).output);
  const amp::Autocast cast(DType::bf16);
  const RecurrentResult result = lstm(x);
  EXPECT_EQ(result.output.dtype(), DType::bf16);
  EXPECT_EQ(result.state.cell.dtype(), DType::bf16);
  const auto low = to_vector(result.output);
  // Outputs are below 1; some ten roundings to bf16, whose errors the gates do not magnify.
  for (size_t i = 0; i < low.size(); ++i) EXPECT_NEAR(low[i], exact[i], 10 * 0x1p-8);
}

// Whether the first of ten signs was positive: only memory can tell at the end.
TEST(Recurrent, LearnsToRemember) {
  LSTM lstm({.in = 1, .hidden = 8});
  optim::Adam adam(lstm.parameters(), {.lr = 0.03});
  double loss = 0;
  for (uint64_t step = 0; step < 150; ++step) {
    const Tensor x = sign(randn({10, 32, 1}, {2, step}));
    adam.zero_grad();
    const Tensor last = select(select(lstm(x).state.hidden, 0, 0), 1, 0);
    const Tensor difference = last - select(select(x, 0, 0), 1, 0);
    const Tensor mean_square = mean(difference * difference);
    mean_square.backward();
    adam.step();
    loss = mean_square.item();
  }
  EXPECT_LT(loss, 0.3);  // a guess has a loss of 1
}

TEST(Recurrent, RefusesBadInput) {
  EXPECT_THAT(test::error_of([] { LSTM({.in = 3, .hidden = 0}); }), HasSubstr("LSTM"));
  EXPECT_THROW(GRU({.in = 3, .hidden = 2, .dropout = 2}), Error);
  LSTM lstm({.in = 3, .hidden = 4, .batch_first = true});
  EXPECT_THAT(test::error_of([&] { lstm(zeros({2, 5, 4})); }), HasSubstr("batch, time, 3"));
  EXPECT_THROW(lstm(zeros({2, 3})), Error);
  EXPECT_THROW(lstm(zeros({2, 0, 3})), Error);
  EXPECT_THROW(lstm(Tensor()), Error);
  EXPECT_THAT(test::error_of([&] {
                lstm(zeros({2, 5, 3}), {.hidden = zeros({1, 3, 4}), .cell = {}});
              }),
              HasSubstr("initial.hidden"));
  EXPECT_THAT(test::error_of([&] {
                lstm(zeros({2, 5, 3}), {.hidden = zeros({1, 2, 4}), .cell = {}});
              }),
              HasSubstr("both hidden and cell"));
}

}  // namespace
}  // namespace binade::nn
