#include "binade/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "binade/autograd/variable.h"
#include "binade/base/error.h"
#include "binade/data/batches.h"
#include "binade/data/corpus.h"
#include "binade/ops/create.h"
#include "binade/ops/shape.h"
#include "binade/train/config.h"

namespace binade::train {
namespace {

constexpr int64_t max_logits_bytes = int64_t{4} << 30;

// Calls use(batch, index of its first token) for one batch after another, on the model's device.
template <class F>
void walk(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch, F&& use) {
  if (batch < 1)
    fail("eval", {.argument = "batch", .expected = "at least 1", .found = std::to_string(batch)});
  if (tokens.size() < 2) {
    fail("eval", {.argument = "tokens",
                  .expected = "at least 2: one to predict from another",
                  .found = std::to_string(tokens.size())});
  }
  const NoGrad no_grad;
  const bool training = model.training();
  model.eval();
  const int64_t context = model.config().context;
  const Device device = model.head_weight().device();
  for (int64_t begin = 0; begin < tokens.size() - 1;) {
    const int64_t left = tokens.size() - 1 - begin;
    const data::BatchShape shape = left >= context
                                       ? data::BatchShape{std::min(batch, left / context), context}
                                       : data::BatchShape{1, left};
    const data::Batch next = data::consecutive_batch(tokens, shape, begin);
    use(data::Batch{to(next.tokens, device), to(next.targets, device)}, begin);
    begin += shape.batch * shape.context;
  }
  model.train(training);
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_token() const { return loss / std::numbers::ln2; }

Evaluation evaluate(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch) {
  Evaluation result{.tokens = tokens.size() - 1};
  double sum = 0;
  walk(model, tokens, batch, [&](const data::Batch& next, int64_t) {
    sum += model.loss(next.tokens, next.targets, {.reduce = Reduce::sum}).item();
  });
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

Tensor all_logits(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch) {
  const int64_t vocab = model.config().vocab, rows = std::max<int64_t>(tokens.size() - 1, 0);
  if (rows > max_logits_bytes / 4 / vocab) {
    fail("eval", {.argument = "--logits",
                  .expected = "at most " + std::to_string(max_logits_bytes / 4 / vocab) +
                              " tokens of " + std::to_string(vocab) + " logits",
                  .found = std::to_string(rows),
                  .hint = "give a shorter --data"});
  }
  const Tensor all = Tensor::empty({rows, vocab}, DType::f32);
  walk(model, tokens, batch, [&](const data::Batch& next, int64_t begin) {
    const Tensor logits = to(model.logits(next.tokens), Device::cpu());
    const int64_t count = next.tokens.numel();
    copy_(slice(all, 0, begin, begin + count), reshape(logits, {count, vocab}));
  });
  return all;
}

EvaluationData evaluation_data(const std::filesystem::path& folder, const std::string& data,
                               int64_t vocab) {
  std::optional<Config> run;
  if (std::error_code error; std::filesystem::exists(folder / "config.toml", error))
    run = resolve({.file = folder / "config.toml", .options = {}});
  const std::string& source = data.empty() && run ? run->data : data;
  const bool are_bytes = !source.ends_with(".bin");
  if (source.empty()) {
    fail("eval", {.argument = "--data",
                  .expected = "a text or token file: " + folder.string() +
                              " is no run, so it has no validation part",
                  .found = "none"});
  }
  if (are_bytes && vocab != 256 && !(run && run->tokenizer == "bytes")) {
    fail("eval", {.argument = "--data",
                  .expected = "a token file (.bin) of the " + std::to_string(vocab) + " ids that " +
                              folder.string() + " knows",
                  .found = source + " by bytes, 256 ids"});
  }
  const data::Tokens tokens = data::read_tokens(source, vocab);
  if (!data.empty()) return {tokens, "all of " + data, are_bytes};
  return {data::split(tokens, run->validation, run->context, source).validation,
          "the validation part of " + source, are_bytes};
}

}  // namespace binade::train
