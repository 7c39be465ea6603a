#include "binade/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/base/text.h"
#include "binade/ops/create.h"
#include "binade/ops/shape.h"
#include "binade/train/eval_mode.h"

namespace binade::train {
namespace {

// Whether the bytes from `at` on are the beginning of a UTF-8 sequence.
bool is_cut_short(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t there = text.size() - at;
  const size_t needed = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4 || there >= needed) return false;
  if (there == 1) return true;
  return utf8_length(std::string(text.substr(at)) + "\x80\x80", 0) > 0;
}

// The tokens to feed next: those that are not in the cache or, if the context is full, its last
// half again.
std::span<const int64_t> next_input(const std::vector<int64_t>& text, int64_t context,
                                    nn::KeyValueCache& cache) {
  const auto length = static_cast<int64_t>(text.size());
  int64_t count = cache.length() == 0 ? length : 1;
  if (cache.length() + count > context) {
    count = std::min(length, cache.length() == 0 ? context : std::max<int64_t>(context / 2, 1));
    cache.clear();
  }
  return {text.end() - count, text.end()};
}

}  // namespace

// All tokens are kept in memory: 8 GB of them.
constexpr int64_t max_tokens = 1'000'000'000;

void check_options(const GenerateOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    fail("generate", {.argument = "temperature",
                      .expected = "a finite number of at least 0",
                      .found = std::to_string(options.temperature)});
  }
  if (options.top_k < 0)
    fail("generate",
         {.argument = "top-k", .expected = "at least 0", .found = std::to_string(options.top_k)});
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail("generate", {.argument = "top-p",
                      .expected = "more than 0 and at most 1",
                      .found = std::to_string(options.top_p)});
  if (options.tokens < 0 || options.tokens > max_tokens)
    fail("generate", {.argument = "tokens",
                      .expected = "from 0 to " + std::to_string(max_tokens),
                      .found = std::to_string(options.tokens)});
}

int64_t choose(std::vector<double> logits, const GenerateOptions& options, double uniform) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&logits](int64_t a, int64_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature == 0) return order[0];
  if (options.top_k > 0 && std::cmp_less(options.top_k, order.size()))
    order.resize(static_cast<size_t>(options.top_k));
  const double highest = logits[static_cast<size_t>(order[0])];
  double total = 0;
  std::vector<double> weights;
  for (const int64_t token : order) {
    weights.push_back(
        std::exp((logits[static_cast<size_t>(token)] - highest) / options.temperature));
    total += weights.back();
  }
  size_t kept = order.size();
  if (options.top_p < 1) {
    double sum = 0;
    for (kept = 0; kept < order.size() && sum < options.top_p * total;) sum += weights[kept++];
    total = sum;
  }
  double rest = uniform * total;
  for (size_t i = 0; i < kept; ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order[kept - 1];
}

std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& on_token) {
  check_options(options);
  if (prompt.empty())
    fail("generate", {.argument = "prompt", .expected = "at least one token", .found = "none"});
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
  const int64_t context = model.config().context;
  nn::KeyValueCache cache(std::min(context, static_cast<int64_t>(prompt.size()) + options.tokens));
  const Device device = model.head_weight().device();
  std::vector<int64_t> generated;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const std::span<const int64_t> next = next_input(prompt, context, cache);
    const auto length = static_cast<int64_t>(next.size());
    const Tensor logits = model.logits(tensor(next, {1, length}, device), cache);
    std::vector<double> last = to_vector(slice(logits, 1, length - 1, length));
    const int64_t token =
        choose(std::move(last), options,
               random::uniform(options.seed, random::stream_id(random::Domain::sampling, 0),
                               static_cast<uint64_t>(i)));
    prompt.push_back(token);
    generated.push_back(token);
    if (on_token) on_token(token);
  }
  return generated;
}

std::string TextStream::take(bool more_may_come) {
  std::string text;
  size_t at = 0;
  while (at < pending_.size() && !(more_may_come && is_cut_short(pending_, at))) {
    const size_t length = utf8_length(pending_, at);
    const std::string character = pending_.substr(at, length);
    const bool shown = character == "\n" || character == "\t" || !is_control(character);
    text += length > 0 && shown ? character : "?";
    at += std::max<size_t>(length, 1);
  }
  pending_.erase(0, at);
  return text;
}

std::string TextStream::add(std::string_view bytes) {
  pending_ += bytes;
  return take(true);
}

std::string TextStream::finish() { return take(false); }

std::string printable(std::string_view bytes) {
  TextStream stream;
  const std::string text = stream.add(bytes);
  return text + stream.finish();
}

}  // namespace binade::train
