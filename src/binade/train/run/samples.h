#pragma once

#include <optional>
#include <string>

#include "binade/base/error.h"
#include "binade/data/documents.h"
#include "binade/data/tokenizer.h"
#include "binade/train/run/continuation.h"
#include "binade/train/run/output.h"
#include "binade/train/trainer.h"

namespace binade::train {

// Text that the model of a run generates, as far as the run's tokenizer can decode it: the answer
// to an example of the validation data if these are examples with prompts, else any text.
class RunSamples {
 public:
  RunSamples(Trainer& trainer, const data::Tokenizer& tokenizer, const data::Tokens& validation,
             RunOutput& output);

  // False if the tokenizer is unknown, that of a token file, or has failed.
  bool can_decode() const;
  // The result of decoding, or nothing with a warning: a run is not lost for the text of its
  // report.
  template <class Decode>
  auto decoded(Decode&& decode) -> decltype(decode()) {
    try {
      return decode();
    } catch (const Error& error) {
      decoder_works_ = false;
      output_.note(std::string("warning: no text of this run is shown: ") + error.what());
      return {};
    }
  }
  // The sample at the end of a run: text of so many tokens, or the example's prompt, the model's
  // answer of at most so many tokens, and the example's own.
  std::string generate(int64_t tokens);
  // Shows two lines after a validation, in which noise becomes text, unless generating them takes a
  // noticeable part of the run's time so far. The first time, the prompt too.
  void show(double seconds_trained);

 private:
  // The model's text alone.
  std::string continuation(int64_t tokens);
  std::string text_of(const std::vector<int64_t>& ids) const;

  Trainer& trainer_;
  const data::Tokenizer& tokenizer_;
  RunOutput& output_;
  std::optional<data::Documents::Example> example_;  // none: the samples answer nothing
  bool decoder_works_ = true, has_shown_prompt_ = false;
  double seconds_ = 0;  // of all samples shown
};

}  // namespace binade::train
