#pragma once

#include <filesystem>
#include <optional>

#include "binade/data/tokens.h"
#include "binade/nn/language_model.h"

namespace binade::train {

struct Evaluation {
  int64_t tokens = 0;  // predicted
  double loss = 0;     // nats per token, the mean
  double perplexity() const;
  // What a byte of the text costs, where the tokens stand for so many bytes.
  double bits_per_byte(int64_t bytes) const;
};

// The mean loss over all tokens but the first, each predicted once: sequences of the model's
// context lie one after another, `batch` at a time, the last one as long as it comes.
Evaluation evaluate(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch);

// The logits those predictions are made by: f32 [tokens - 1, vocab]. Refuses more than 4 GB.
Tensor all_logits(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch);

// What a model is evaluated on: all of `data`, or where that is empty the validation part of the
// run that `folder` (a run or a checkpoint) belongs to.
struct EvaluationData {
  data::Tokens tokens;
  std::string source;            // in words
  std::optional<int64_t> bytes;  // of text that the predicted tokens stand for, where that is known
};
EvaluationData evaluation_data(const std::filesystem::path& folder, const std::string& data,
                               int64_t vocab);

}  // namespace binade::train
