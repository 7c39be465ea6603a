#include "binade/train/sampled_text.h"

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/random.h"

namespace binade::train {

SampledText::SampledText(std::vector<int64_t> prompt, const GenerateOptions& options)
    : options_(options),
      stream_(random::stream_id(random::Domain::sampling, static_cast<uint64_t>(options.sample))),
      tokens_(std::move(prompt)),
      prompt_size_(tokens_.size()) {
  check_options(options_);
  if (tokens_.empty())
    fail("generate", {.argument = "prompt", .expected = "at least one token", .found = "none"});
}

int64_t SampledText::add(std::vector<double> logits) {
  if (options_.repetition_penalty != 1)
    penalize_repetition(logits, tokens_, options_.repetition_penalty);
  const uint64_t index = tokens_.size() - prompt_size_;
  tokens_.push_back(
      choose(std::move(logits), options_, random::uniform(options_.seed, stream_, index)));
  return tokens_.back();
}

bool SampledText::has_ended() const {
  const size_t count = tokens_.size() - prompt_size_;
  return std::cmp_equal(count, options_.tokens) ||
         (count > 0 && std::ranges::find(options_.eos, tokens_.back()) != options_.eos.end());
}

std::span<const int64_t> SampledText::next_input(int64_t context, nn::KeyValueCache& cache) const {
  const auto length = static_cast<int64_t>(tokens_.size());
  int64_t count = cache.length() == 0 ? length : 1;
  if (cache.length() + count > context) {
    count = std::min(length, cache.length() == 0 ? context : std::max<int64_t>(context / 2, 1));
    cache.clear();
  }
  return {tokens_.end() - count, tokens_.end()};
}

int64_t SampledText::cache_size(int64_t context) const {
  return std::min(context, static_cast<int64_t>(prompt_size_) + options_.tokens);
}

std::vector<int64_t> SampledText::generated() const {
  return {tokens_.begin() + static_cast<std::ptrdiff_t>(prompt_size_), tokens_.end()};
}

}  // namespace binade::train
