#pragma once

#include <string>

#include "binade/base/error.h"
#include "binade/data/tokenizer.h"
#include "binade/train/run/output.h"
#include "binade/train/trainer.h"

namespace binade::train {

// Text that the model of a run generates, as far as the run's tokenizer can decode it.
class RunSamples {
 public:
  RunSamples(Trainer& trainer, const data::Tokenizer& tokenizer, RunOutput& output)
      : trainer_(trainer), tokenizer_(tokenizer), output_(output) {}

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
  // Text of so many tokens.
  std::string generate(int64_t tokens);
  // Shows two lines after a validation, in which noise becomes text, unless generating them takes a
  // noticeable part of the run's time so far.
  void show(double seconds_trained);

 private:
  Trainer& trainer_;
  const data::Tokenizer& tokenizer_;
  RunOutput& output_;
  bool decoder_works_ = true;
  double seconds_ = 0;  // of all samples shown
};

}  // namespace binade::train
