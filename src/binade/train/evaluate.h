#pragma once

#include <filesystem>
#include <optional>

#include "binade/data/tokenizer.h"
#include "binade/data/tokens.h"
#include "binade/nn/language_model.h"

namespace binade::train {

struct Evaluation {
  int64_t tokens = 0;  // predicted
  double loss = 0;     // nats per token, the mean
  double perplexity() const;
  // Bits per byte of tokens whose text has this many bytes.
  double bits_per_byte(int64_t bytes) const;
};

// The mean loss over all tokens but the first, each predicted once, in consecutive sequences of the
// model's context, `batch` at a time. The last sequence may be shorter.
Evaluation evaluate(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch);

// The loss by sliding windows, as transformers' guide "Perplexity of fixed-length models" computes
// it: windows of the model's context begin every `stride` tokens (2 to the context), and in each
// only those tokens count that the window before it does not have. As in the guide, the mean loss
// of a window has the weight of these tokens less one. With a stride of the context, the first
// token of a window is never predicted.
Evaluation evaluate_windows(nn::LanguageModel& model, const data::Tokens& tokens, int64_t stride,
                            int64_t batch);

// The logits of evaluate(): f32 [tokens - 1, vocab]. Fails for more than 4 GiB.
Tensor all_logits(nn::LanguageModel& model, const data::Tokens& tokens, int64_t batch);

// Bytes of text per token, over the first million tokens.
double bytes_per_token(const data::Tokenizer& tokenizer, const data::Tokens& tokens);

// The data to evaluate a model on: all of `data` (a text, a token file or examples) or, if that is
// empty, the validation part of the run that `folder` (a run or a checkpoint) belongs to.
struct EvaluationData {
  data::Tokens tokens;
  std::string source;            // a description of its origin
  std::optional<int64_t> bytes;  // of the predicted tokens' text, if known
};
EvaluationData evaluation_data(const std::filesystem::path& folder, const std::string& data,
                               const nn::LanguageModelConfig& model);

}  // namespace binade::train
