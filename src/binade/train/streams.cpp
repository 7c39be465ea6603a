#include "binade/train/streams.h"

#include <algorithm>
#include <utility>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/eval_mode.h"
#include "binade/train/sampled_text.h"

namespace binade::train {
namespace {

// Tokens of a prompt in one forward: few enough that other texts hardly wait, and that logits of
// large vocabularies fit in memory.
constexpr int64_t prompt_chunk = 256;

}  // namespace

struct StreamBatch::Stream {
  StreamRequest request;
  SampledText text;
  nn::KeyValueCache cache;
  std::vector<int64_t> input = {};  // not fed yet
  bool has_read_prompt = false;

  Stream(StreamRequest asked, int64_t context)
      : request(std::move(asked)),
        text(request.prompt, request.options),
        cache(text.cache_size(context)) {}

  bool is_wanted() const { return !request.is_wanted || request.is_wanted(); }
  bool scores_prompt() const { return request.scores.prompt && !has_read_prompt; }
  void end() const {
    if (request.on_end) request.on_end();
  }

  // Samples a token from a row of logits and adds it to the text; none: that failed.
  std::optional<int64_t> next_token(const Tensor& logits) {
    try {
      return text.add(to_vector(logits));
    } catch (const Error& error) {
      if (!request.on_error) throw;
      request.on_error(error);
      return {};
    }
  }

  // Adds a token sampled from a row of logits. Returns whether the text goes on.
  bool grow(const Tensor& logits) {
    const std::optional<int64_t> next = next_token(logits);
    if (!next) return false;
    const int64_t token = *next;
    ScoredToken scored{.id = token};
    if (request.scores.generated)
      scored = scored_tokens(logits, std::span(&token, 1), request.scores.top)[0];
    const bool goes_on = !request.on_token || request.on_token(scored);
    return goes_on && !text.has_ended();
  }

  // Scores the tokens of the prompt that these logits precede.
  void score_prompt(const Tensor& logits, int64_t begin) {
    const auto end =
        std::min(begin + logits.size(1), static_cast<int64_t>(request.prompt.size()) - 1);
    if (end <= begin || !request.on_prompt) return;
    const std::span<const int64_t> tokens(request.prompt.data() + begin + 1,
                                          static_cast<size_t>(end - begin));
    request.on_prompt(scored_tokens(slice(logits, 1, 0, end - begin), tokens, request.scores.top));
  }
};

StreamBatch::StreamBatch(nn::LanguageModel& model, int64_t at_once)
    : model_(model), at_once_(at_once) {}
StreamBatch::~StreamBatch() = default;

void StreamBatch::add(StreamRequest request) {
  const int64_t context = model_.config().context;
  if (request.scores.prompt && std::cmp_greater(request.prompt.size(), context))
    fail("generate", {.argument = "prompt",
                      .expected = "at most " + std::to_string(context) + " tokens to score",
                      .found = std::to_string(request.prompt.size())});
  auto stream = std::make_unique<Stream>(std::move(request), context);
  // No token was asked for.
  if (stream->text.has_ended() && !stream->request.scores.prompt) return stream->end();
  streams_.push_back(std::move(stream));
}

// Feeds a part of a prompt, or of a full context's half. Returns whether the text goes on.
bool StreamBatch::feed_prompt(Stream& stream) {
  const int64_t count = std::min(prompt_chunk, static_cast<int64_t>(stream.input.size()));
  const int64_t begin = stream.cache.length();
  const Tensor tokens = tensor(std::span(stream.input).first(static_cast<size_t>(count)),
                               {1, count}, model_.head_weight().device());
  const Tensor logits = model_.logits(tokens, stream.cache);
  stream.input.erase(stream.input.begin(), stream.input.begin() + count);
  if (stream.scores_prompt()) stream.score_prompt(logits, begin);
  if (!stream.input.empty()) return true;
  stream.has_read_prompt = true;
  if (stream.text.has_ended()) return false;
  return stream.grow(slice(logits, 1, count - 1, count));
}

// Feeds the next token of each stream. Returns which of the texts go on.
std::vector<bool> StreamBatch::feed_tokens(std::span<Stream* const> streams) {
  std::vector<bool> result;
  if (streams.empty()) return result;
  std::vector<int64_t> tokens;
  std::vector<nn::KeyValueCache*> caches;
  for (Stream* stream : streams) {
    tokens.push_back(stream->input[0]);
    stream->input.clear();
    caches.push_back(&stream->cache);
  }
  const auto count = static_cast<int64_t>(tokens.size());
  const Tensor logits =
      model_.logits(tensor(tokens, {count, 1}, model_.head_weight().device()), caches);
  for (int64_t i = 0; i < count; ++i)
    result.push_back(streams[static_cast<size_t>(i)]->grow(slice(logits, 0, i, i + 1)));
  return result;
}

void StreamBatch::step() {
  const NoGrad no_grad;
  const EvalMode eval_mode(model_);
  std::vector<bool> goes_on(streams_.size());
  std::vector<size_t> single;  // those that are fed one token, which share a forward
  std::vector<Stream*> together;
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = *streams_[i];
    if (!stream.is_wanted()) continue;
    if (stream.input.empty()) {
      const auto next = stream.text.next_input(model_.config().context, stream.cache);
      stream.input.assign(next.begin(), next.end());
    }
    if (stream.input.size() > 1 || stream.scores_prompt()) {
      goes_on[i] = feed_prompt(stream);
    } else {
      single.push_back(i);
      together.push_back(&stream);
    }
  }
  const std::vector<bool> fed = feed_tokens(together);
  for (size_t i = 0; i < single.size(); ++i) goes_on[single[i]] = fed[i];
  Streams going;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (goes_on[i]) {
      going.push_back(std::move(streams_[i]));
    } else {
      streams_[i]->end();
    }
  }
  streams_ = std::move(going);
}

void StreamBatch::clear() {
  for (const auto& stream : std::exchange(streams_, {})) stream->end();
}

void generate_streams(nn::LanguageModel& model, int64_t at_once,
                      const std::function<std::optional<StreamRequest>()>& next) {
  StreamBatch batch(model, at_once);
  bool has_more = true;
  while (true) {
    while (has_more && batch.has_room()) {
      std::optional<StreamRequest> request = next();
      has_more = request.has_value();
      if (request) batch.add(std::move(*request));
    }
    if (batch.empty()) return;
    batch.step();
  }
}

std::vector<GeneratedText> generate_texts(nn::LanguageModel& model,
                                          std::span<const std::vector<int64_t>> prompts,
                                          int64_t count, const GenerateOptions& options,
                                          int64_t at_once) {
  std::vector<GeneratedText> texts(prompts.size() * static_cast<size_t>(count));
  size_t started = 0;
  generate_streams(model, at_once, [&]() -> std::optional<StreamRequest> {
    if (started == texts.size()) return {};
    GeneratedText& text = texts[started];
    StreamRequest request{.prompt = prompts[started / static_cast<size_t>(count)],
                          .options = options,
                          .scores = {.generated = true}};
    request.options.sample += static_cast<int64_t>(started++);
    request.on_token = [&text](const ScoredToken& token) {
      text.tokens.push_back(token.id);
      text.log_probs.push_back(token.log_prob);
      return true;
    };
    return request;
  });
  return texts;
}

}  // namespace binade::train
