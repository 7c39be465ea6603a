#include "binade/train/run/samples.h"

#include <algorithm>
#include <chrono>

#include "binade/amp/autocast.h"
#include "binade/base/text.h"
#include "binade/data/corpus.h"
#include "binade/train/generate.h"

namespace binade::train {

bool RunSamples::can_decode() const {
  const bool has_bytes = trainer_.config().model.vocab == data::byte_vocabulary;
  return decoder_works_ && (has_bytes || !tokenizer_.model().empty());
}

std::string RunSamples::generate(int64_t tokens) {
  std::string text;
  trainer_.gather_weights();
  trainer_.run_between_steps([&] {
    const Config& config = trainer_.config();
    const amp::Autocast cast(autocast_state(config));
    const std::vector<int64_t> ids =
        train::generate(trainer_.model(), tokenizer_.encode_prompt("\n"),
                        {.tokens = tokens, .seed = static_cast<uint64_t>(config.train.seed)});
    text = decoded([&] { return printable(tokenizer_.decode(ids)); });
  });
  return text;
}

void RunSamples::show(double seconds_trained) {
  constexpr int64_t tokens = 160;                       // two lines of 80 columns, by bytes
  constexpr double max_fraction = 0.05, unnoticed = 1;  // seconds
  if (!output_.prints_text() || trainer_.config().run.sample == 0 || !can_decode()) return;
  if (seconds_ > std::max(max_fraction * seconds_trained, unnoticed)) return;
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = generate(tokens);
  output_.show([&](Progress& progress) { progress.sample(text); });
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace binade::train
