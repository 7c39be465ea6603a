#include "binade/train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "binade/amp/trace.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/op_observer.h"
#include "binade/backend/graph.h"
#include "binade/backend/profile.h"
#include "binade/backend/transfer.h"
#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "binade/train/eval_mode.h"
#include "binade/train/sampled_text.h"

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

// Feeds tokens to a model and returns the logits that follow them. Single tokens, which a GPU runs
// faster than the host can launch their kernels, are replays of a captured graph.
class Decoder {
 public:
  Decoder(nn::LanguageModel& model, int64_t capacity)
      : model_(model), device_(model.head_weight().device()), cache_(capacity) {}

  nn::KeyValueCache& cache() { return cache_; }

  std::vector<double> feed(std::span<const int64_t> tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    if (length == 1 && model_.has_next_logits()) return feed_one(tokens[0]);
    const Tensor logits = model_.logits(tensor(tokens, {1, length}, device_), cache_);
    return to_vector(slice(logits, 1, length - 1, length));
  }

 private:
  // The first runs tune matmuls and cast weights, which a capture must find done.
  static constexpr int64_t first_runs = 2;

  std::vector<double> feed_one(int64_t token) {
    const int64_t numbers[] = {token, cache_.length()};
    const Tensor host = tensor(numbers, {2, 1});
    if (!input_.defined()) input_ = Tensor::empty(host.shape(), host.dtype(), device_);
    backend::transfer(host, input_);
    const auto run = [&] {
      logits_ =
          model_.next_logits(slice(input_, 0, 0, 1), reshape(slice(input_, 0, 1, 2), {1}), cache_);
    };
    if (!graph_.captured() && can_capture() && runs_ == first_runs) graph_.capture(device_, run);
    graph_.captured() ? graph_.replay() : run();
    ++runs_;
    cache_.advance();
    return to_vector(logits_);
  }

  bool can_capture() const {
    return backend::Graph::is_supported(device_) && backend::profiled(device_) == nullptr &&
           !amp::tracing() && autograd::op_observer() == nullptr;
  }

  nn::LanguageModel& model_;
  Device device_;
  nn::KeyValueCache cache_;
  Tensor input_;   // i64 [2, 1]: the token and its position
  Tensor logits_;  // of the latest run; the graph writes it again and again
  backend::Graph graph_;
  int64_t runs_ = 0;
};

// Numbers that no token can be chosen by, such as those of a model that has diverged.
void check_logits(std::span<const double> logits) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto bad = std::ranges::find_if(logits, [](double logit) { return !(logit < infinity); });
  if (bad == logits.end() && std::ranges::max(logits) == -infinity) bad = logits.begin();
  if (bad == logits.end()) return;
  fail("generate", {.argument = "the model's logits",
                    .expected = "finite numbers",
                    .found = fmt::format("{} for token {}", *bad, bad - logits.begin()),
                    .hint = "the weights are damaged, or too large for the precision"});
}

}  // namespace

// All tokens are kept in memory: 8 GB of them.
constexpr int64_t max_tokens = 1'000'000'000;

void check_options(const GenerateOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    fail("generate", {.argument = "temperature",
                      .expected = "a finite number of at least 0",
                      .found = fmt::format("{}", options.temperature)});
  }
  if (options.top_k < 0)
    fail("generate",
         {.argument = "top-k", .expected = "at least 0", .found = std::to_string(options.top_k)});
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail("generate", {.argument = "top-p",
                      .expected = "more than 0 and at most 1",
                      .found = fmt::format("{}", options.top_p)});
  if (!(options.repetition_penalty > 0) || !std::isfinite(options.repetition_penalty))
    fail("generate", {.argument = "repetition-penalty",
                      .expected = "a finite number above 0",
                      .found = fmt::format("{}", options.repetition_penalty)});
  if (options.tokens < 0 || options.tokens > max_tokens)
    fail("generate", {.argument = "tokens",
                      .expected = "from 0 to " + std::to_string(max_tokens),
                      .found = std::to_string(options.tokens)});
}

int64_t choose(std::vector<double> logits, const GenerateOptions& options, double uniform) {
  check_logits(logits);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Most likely first; of equal ones, the lowest index. Sorts no more than are needed.
  const auto before = [&logits](int64_t a, int64_t b) {
    const double x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const int64_t wanted = options.temperature == 0 ? 1 : options.top_k;
  const size_t kept_by_rank = wanted > 0 && std::cmp_less(wanted, order.size())
                                  ? static_cast<size_t>(wanted)
                                  : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept_by_rank), order.end(),
                    before);
  order.resize(kept_by_rank);
  if (options.temperature == 0) return order[0];
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

void penalize_repetition(std::span<double> logits, std::span<const int64_t> text, double penalty) {
  const std::set<int64_t> seen(text.begin(), text.end());
  for (const int64_t token : seen) {
    double& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<bool(int64_t)>& on_token) {
  SampledText text(std::move(prompt), options);
  const NoGrad no_grad;
  const EvalMode eval_mode(model);
  const int64_t context = model.config().context;
  Decoder decoder(model, text.cache_size(context));
  while (!text.has_ended()) {
    const int64_t token = text.add(decoder.feed(text.next_input(context, decoder.cache())));
    if (on_token && !on_token(token)) break;
  }
  return text.generated();
}

std::string TextStream::take(bool more_may_come) {
  std::string text;
  size_t at = 0;
  while (at < pending_.size() && !(more_may_come && is_cut_short(pending_, at))) {
    const size_t length = utf8_length(pending_, at);
    const std::string character = pending_.substr(at, length);
    const bool is_printable = characters_ == Characters::printable;
    const bool hidden = is_printable && (is_control(character) || is_bidi_control(character));
    const bool shown = character == "\n" || character == "\t" || !hidden;
    text += length > 0 && shown ? character : is_printable ? "?" : "\xEF\xBF\xBD";
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
