#include "binade/train/run/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/base/text.h"
#include "binade/data/chat/chat_template.h"
#include "binade/data/corpus.h"
#include "binade/train/conversation.h"

namespace binade::train {
namespace {

// The first example with a prompt that leaves room for an answer; texts among examples have none.
std::optional<data::Documents::Example> find_example(const data::Tokens& validation,
                                                     int64_t context) {
  constexpr int64_t most_tried = 1000;
  const auto& documents = validation.documents();
  if (documents == nullptr) return {};
  for (int64_t i = 0; i < std::min(documents->size(), most_tried); ++i) {
    data::Documents::Example example = documents->example(i);
    if (example.prompt.size() > 1 && std::cmp_less(example.prompt.size(), context)) return example;
  }
  return {};
}

ContinuationOptions answer_options(const Config& config, const data::Tokenizer& tokenizer) {
  ContinuationOptions options{.is_answer = true};
  options.generate.eos = model_config(config).eos;
  if (const auto chat = data::chat_template_beside(config.data.tokenizer, config.data.chat))
    end_with_answer(*chat, tokenizer, options);
  return options;
}

}  // namespace

RunSamples::RunSamples(Trainer& trainer, const data::Tokenizer& tokenizer,
                       const data::Tokens& validation, RunOutput& output)
    : trainer_(trainer),
      tokenizer_(tokenizer),
      output_(output),
      example_(find_example(validation, trainer.config().model.context)) {}

bool RunSamples::can_decode() const {
  const bool has_bytes = trainer_.config().model.vocab == data::byte_vocabulary;
  return decoder_works_ && (has_bytes || !tokenizer_.model().empty());
}

std::string RunSamples::text_of(const std::vector<int64_t>& ids) const {
  return printable(tokenizer_.decode(ids));
}

std::string RunSamples::continuation(int64_t tokens) {
  std::string text;
  trainer_.gather_weights();
  trainer_.run_between_steps([&] {
    const Config& config = trainer_.config();
    const amp::Autocast cast(autocast_state(config));
    ContinuationOptions options;
    if (example_) options = answer_options(config, tokenizer_);
    options.generate.tokens = tokens;
    options.generate.seed = static_cast<uint64_t>(config.train.seed);
    text = decoded([&] {
      if (!example_)
        return text_of(
            train::generate(trainer_.model(), tokenizer_.encode_prompt("\n"), options.generate));
      const auto ignore = [](std::string_view) {};
      return printable(
          continue_text(trainer_.model(), tokenizer_, example_->prompt, options, ignore).text);
    });
  });
  return text;
}

std::string RunSamples::generate(int64_t tokens) {
  const std::string text = continuation(tokens);
  if (!example_ || !decoder_works_) return text;
  return decoded([&] {
    return fmt::format("prompt:\n{}\n\nanswer of the model:\n{}\n\nanswer in the data:\n{}",
                       text_of(example_->prompt), text, text_of(example_->answer));
  });
}

void RunSamples::show(double seconds_trained) {
  constexpr int64_t tokens = 160;                       // two lines of 80 columns, by bytes
  constexpr double max_fraction = 0.05, unnoticed = 1;  // seconds
  if (!output_.prints_text() || trainer_.config().run.sample == 0 || !can_decode()) return;
  if (seconds_ > std::max(max_fraction * seconds_trained, unnoticed)) return;
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = continuation(tokens);
  if (example_ && !std::exchange(has_shown_prompt_, true)) {
    output_.note("samples answer this example of the validation data:");
    const std::string prompt = decoded([&] { return text_of(example_->prompt); });
    output_.show([&](Progress& progress) { progress.sample(prompt); });
  }
  output_.show([&](Progress& progress) { progress.sample(text); });
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace binade::train
