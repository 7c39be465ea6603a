#include "binade/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "binade/autograd/variable.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/ops/create.h"
#include "binade/ops/shape.h"

namespace binade::train {
namespace {

// Bits 62 and 61 keep these draws apart from those of data, ops and starting weights.
constexpr uint64_t sample_stream = uint64_t{3} << 61;

void check(const GenerateOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    fail("generate", {.argument = "temperature",
                      .expected = "a finite number of at least 0",
                      .found = std::to_string(options.temperature)});
  }
  if (options.top_k < 0)
    fail("generate",
         {.argument = "top-k", .expected = "at least 0", .found = std::to_string(options.top_k)});
  if (options.tokens < 0)
    fail("generate",
         {.argument = "tokens", .expected = "at least 0", .found = std::to_string(options.tokens)});
}

// Length of the well-formed UTF-8 sequence at `at`; 0 where there is none.
size_t sequence_length(const std::string& text, size_t at) {
  const auto byte = [&text](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&byte](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at), second = byte(at + 1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool good = !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second > 0x9F);
    return good && continues(at + 1) && continues(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool good = !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second > 0x8F);
    return good && continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

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
  double rest = uniform * total;
  for (size_t i = 0; i < order.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return order[i];
  }
  return order.back();
}

std::vector<int64_t> generate(nn::LanguageModel& model, std::vector<int64_t> prompt,
                              const GenerateOptions& options,
                              const std::function<void(int64_t)>& seen) {
  check(options);
  if (prompt.empty())
    fail("generate", {.argument = "prompt", .expected = "at least one token", .found = "none"});
  const NoGrad no_grad;
  const bool training = model.training();
  model.eval();
  std::vector<int64_t> made;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto length =
        std::min<int64_t>(static_cast<int64_t>(prompt.size()), model.config().context);
    const std::span<const int64_t> window(prompt.end() - length, prompt.end());
    const Tensor logits = model.logits(tensor(window, {1, length}));
    std::vector<double> last = to_vector(slice(logits, 1, length - 1, length));
    const int64_t token =
        choose(std::move(last), options,
               random::uniform(options.seed, sample_stream, static_cast<uint64_t>(i)));
    prompt.push_back(token);
    made.push_back(token);
    if (seen) seen(token);
  }
  model.train(training);
  return made;
}

std::string printable(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = sequence_length(bytes, i);
    const auto first = static_cast<unsigned char>(bytes[i]);
    const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
    text += length == 0 || control ? "?" : bytes.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return text;
}

std::string text_of(const std::vector<int64_t>& tokens) {
  std::string bytes;
  for (const int64_t token : tokens) bytes += token < 256 ? static_cast<char>(token) : '?';
  return printable(bytes);
}

}  // namespace binade::train
