#include "binade/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/data/batches.h"
#include "binade/data/chat/examples.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "binade/data/mixture.h"
#include "binade/data/tokenizer.h"
#include "binade/io/file.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/config/component_options.h"
#include "binade/train/eval_mode.h"

namespace binade::train {
namespace {

constexpr int64_t max_logits_bytes = int64_t{4} << 30;

void check_sizes(const data::Tokens& tokens, int64_t batch) {
  if (batch < 1)
    fail("eval", {.argument = "batch", .expected = "at least 1", .found = std::to_string(batch)});
  if (tokens.size() < 2) {
    fail("eval", {.argument = "tokens",
                  .expected = "at least 2: one to predict from another",
                  .found = std::to_string(tokens.size())});
  }
}

// Windows over all tokens would join examples and count prompts.
void refuse_documents(const data::Tokens& tokens, const char* option) {
  if (tokens.documents())
    fail("eval", {.argument = option,
                  .expected = "a text or token file",
                  .found = "examples, of which the answers alone are predicted",
                  .hint = "leave it out, or give --data"});
}

// Calls use(batch, index of its first token) for each batch, on the model's device.
template <class F>
void for_each_batch(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch, F&& use) {
  check_sizes(tokens, batch);
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
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
}

// Tokens from `begin` to `end`, of which the last `fresh` count.
struct Window {
  int64_t begin, end, fresh;

  int64_t length() const { return end - begin; }
  // The first token of a window has nothing to be predicted from.
  int64_t predicted() const { return std::min(fresh, length() - 1); }
};

std::vector<Window> sliding_windows(int64_t tokens, int64_t context, int64_t stride) {
  std::vector<Window> windows;
  int64_t previous = 0;
  for (int64_t begin = 0; previous < tokens; begin += stride) {
    const int64_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, end - previous});
    previous = end;
  }
  return windows;
}

// Windows of one length, with targets only for the tokens that count.
data::Batch window_batch(const data::Tokens& tokens, std::span<const Window> windows) {
  const int64_t inputs = windows[0].length() - 1, ignored = inputs - windows[0].predicted();
  const Shape shape{static_cast<int64_t>(windows.size()), inputs};
  data::Batch batch{Tensor::empty(shape, DType::i64), Tensor::empty(shape, DType::i64)};
  auto* in = batch.tokens.mutable_data<int64_t>();
  auto* out = batch.targets.mutable_data<int64_t>();
  const auto row = static_cast<size_t>(inputs);
  for (const Window& window : windows) {
    tokens.read(window.begin, {in, row});
    tokens.read(window.begin + 1, {out, row});
    std::fill(out, out + ignored, CrossEntropyOptions{}.ignore_index);
    in += inputs;
    out += inputs;
  }
  io::check_mapped_files("eval");
  return batch;
}

// Bytes of the text of the tokens before `end`, without the first.
int64_t text_bytes(const data::Tokenizer& tokenizer, const data::Tokens& tokens, int64_t end) {
  constexpr int64_t part = 1 << 16;
  int64_t bytes = 0;
  std::vector<int64_t> ids;
  for (int64_t begin = 1; begin < end; begin += part) {
    ids.clear();
    for (int64_t i = begin; i < std::min(begin + part, end); ++i) ids.push_back(tokens[i]);
    bytes += static_cast<int64_t>(tokenizer.decode(ids).size());
  }
  return bytes;
}

// The targets of all documents.
Evaluation evaluate_documents(nn::LanguageModel& model, const data::Documents& documents,
                              int64_t batch) {
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
  const Device device = model.head_weight().device();
  Evaluation result;
  double sum = 0;
  for (int64_t row = 0; row < documents.rows(); row += batch) {
    const data::BatchShape shape{std::min(batch, documents.rows() - row), model.config().context};
    const data::Batch next = documents.consecutive_batch(shape, row);
    sum += model
               .loss(to(next.tokens, device), to(next.targets, device), {.reduce = Reduce::sum},
                     next.documents)
               .item();
    const auto* targets = next.targets.data<int64_t>();
    result.tokens += std::count_if(targets, targets + next.targets.numel(),
                                   [](int64_t target) { return target >= 0; });
  }
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

double Evaluation::bits_per_byte(int64_t bytes) const {
  return loss / std::numbers::ln2 * static_cast<double>(tokens) / static_cast<double>(bytes);
}

Evaluation evaluate(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch) {
  check_sizes(tokens, batch);
  if (tokens.documents()) return evaluate_documents(model, *tokens.documents(), batch);
  Evaluation result{.tokens = tokens.size() - 1};
  double sum = 0;
  for_each_batch(model, tokens, batch, [&](const data::Batch& next, int64_t) {
    sum += model.loss(next.tokens, next.targets, {.reduce = Reduce::sum}).item();
  });
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

Evaluation evaluate_windows(nn::LanguageModel& model, const data::Tokens& tokens, int64_t stride,
                            int64_t batch) {
  const int64_t context = model.config().context;
  refuse_documents(tokens, "--stride");
  check_sizes(tokens, batch);
  // With a stride of 1 all windows but the first would have a weight of 0.
  if (stride < 2 || stride > context)
    fail("eval", {.argument = "stride",
                  .expected = "from 2 to the model's context of " + std::to_string(context),
                  .found = std::to_string(stride)});
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
  const Device device = model.head_weight().device();
  const std::vector<Window> windows = sliding_windows(tokens.size(), context, stride);
  Evaluation result;
  double sum = 0, weights = 0;
  for (auto first = windows.begin(); first != windows.end();) {
    auto last = first + 1;
    while (last != windows.end() && last - first < batch && last->length() == first->length() &&
           last->fresh == first->fresh)
      ++last;
    const auto count = last - first;
    if (first->predicted() > 0) {
      const data::Batch next = window_batch(tokens, {first, last});
      const double mean = model.loss(to(next.tokens, device), to(next.targets, device)).item();
      const auto weight = static_cast<double>(count * (first->fresh - 1));
      sum += mean * weight;
      weights += weight;
      result.tokens += count * first->predicted();
    }
    first = last;
  }
  result.loss = sum / weights;
  return result;
}

Tensor all_logits(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch) {
  refuse_documents(tokens, "--logits");
  const int64_t vocab = model.config().vocab, rows = std::max<int64_t>(tokens.size() - 1, 0);
  if (rows > max_logits_bytes / 4 / vocab) {
    fail("eval", {.argument = "--logits",
                  .expected = "at most " + std::to_string(max_logits_bytes / 4 / vocab) +
                              " tokens of " + std::to_string(vocab) + " logits",
                  .found = std::to_string(rows),
                  .hint = "give a shorter --data"});
  }
  const Tensor all = Tensor::empty({rows, vocab}, DType::f32);
  for_each_batch(model, tokens, batch, [&](const data::Batch& next, int64_t begin) {
    const Tensor logits = to(model.logits(next.tokens), Device::cpu());
    const int64_t count = next.tokens.numel();
    copy_(slice(all, 0, begin, begin + count), reshape(logits, {count, vocab}));
  });
  return all;
}

double bytes_per_token(const data::Tokenizer& tokenizer, const data::Tokens& tokens) {
  const int64_t end = std::min<int64_t>(tokens.size(), 1'000'000);
  if (end < 2) return 0;
  return static_cast<double>(text_bytes(tokenizer, tokens, end)) / static_cast<double>(end - 1);
}

EvaluationData evaluation_data(const std::filesystem::path& folder, const std::string& data,
                               const nn::LanguageModelConfig& model) {
  const int64_t vocab = model.vocab;
  std::optional<Config> run;
  if (std::error_code error; std::filesystem::exists(folder / "config.toml", error))
    run = resolve({.file = folder / "config.toml", .options = {}});
  const std::string& source = data.empty() && run ? run->data.source : data;
  if (source.empty()) {
    fail("eval", {.argument = "--data",
                  .expected = "a text or token file: " + folder.string() +
                              " is not a run and has no validation part",
                  .found = "none"});
  }
  if (data.empty() && run->objective.has_pairs()) {
    fail("eval", {.argument = folder.string(),
                  .expected = "a run on texts or examples",
                  .found = "one on pairs of answers",
                  .hint = "its metrics.jsonl has the loss, accuracy and margin of validations; or "
                          "give --data"});
  }
  const bool has_file = data::find_tokenizer(folder).has_value();
  const bool are_bytes = !has_file && (vocab == data::byte_vocabulary ||
                                       (run && run->data.tokenizer == data::byte_tokenizer));
  if (!has_file && !are_bytes && !data::are_token_files(source)) {
    fail("eval", {.argument = "--data",
                  .expected = "a token file (.bin) of the " + std::to_string(vocab) + " ids that " +
                              folder.string() + " knows",
                  .found = source + ", a text, and no tokenizer"});
  }
  const auto tokenizer = has_file ? data::tokenizer_of(folder, vocab) : nullptr;
  EvaluationData result;
  if (data.empty()) {
    data::Source own = data_source(*run, tokenizer.get());
    own.batch = 1;
    result = {data::read_split(own).validation, "the validation part of " + source, {}};
  } else if (data::is_example_file(data)) {
    data::Source all{
        .where = data, .tokenizer = tokenizer.get(), .vocab = vocab, .context = model.context};
    all.chat = data::read_chat_template(folder, run ? run->data.chat : std::nullopt);
    if (!model.eos.empty()) all.eos = model.eos.front();
    result = {data::read_all_examples(all), "the answers in " + source, {}};
  } else if (data::has_examples(data)) {
    fail("eval", {.argument = "--data",
                  .expected = "one file of examples, or texts without examples",
                  .found = data,
                  .hint = "evaluate its files one by one"});
  } else {
    result = {data::read_tokens(source, vocab, tokenizer.get()), "all of " + source, {}};
  }
  if (result.tokens.documents()) return result;  // only some of the tokens are predicted
  if (are_bytes) result.bytes = result.tokens.size() - 1;
  if (tokenizer != nullptr)
    result.bytes = text_bytes(*tokenizer, result.tokens, result.tokens.size());
  return result;
}

}  // namespace binade::train
