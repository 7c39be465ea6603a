#include "binade/lab/torch_diff/torch_diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/lab/torch_diff/backward.h"
#include "binade/lab/torch_diff/forward.h"
#include "binade/lab/torch_diff/weights.h"
#include "binade/ops/loss/loss.h"

namespace binade::lab {
namespace {

double roundoff_of(const train::InferencePrecision& precision) {
  switch (precision.matmul) {
    case train::Precision::fp32:
      return unit_roundoff(DType::f32);
    case train::Precision::tf32:
      return formats::spec::tf32.epsilon() / 2;
    case train::Precision::bf16:
      return unit_roundoff(DType::bf16);
    case train::Precision::fp16:
      return unit_roundoff(DType::f16);
    case train::Precision::quantized:
      return std::max(precision.recipe[amp::Role::input].format.epsilon(),
                      precision.recipe[amp::Role::weight].format.epsilon()) /
             2;
  }
  return 0;
}

void check_ids(const TorchRecording& recording, const Tensor& ids, const char* name, int64_t vocab,
               int64_t ignored) {
  const auto* id = ids.data<int64_t>();
  const auto* const end = id + ids.numel();
  const auto* const wrong = std::find_if(
      id, end, [&](int64_t one) { return one != ignored && (one < 0 || one >= vocab); });
  if (wrong == end) return;
  fail("diff", {.argument = recording.name(),
                .expected = fmt::format("{} below the vocabulary's {}", name, vocab),
                .found = std::to_string(*wrong),
                .hint = "give the model that was recorded"});
}

void check_batch(const nn::LanguageModelConfig& config, const TorchRecording& recording) {
  const Tensor& tokens = recording.tokens();
  if (tokens.size(1) > config.context)
    fail("diff", {.argument = recording.name(),
                  .expected = fmt::format("at most {} tokens in a row, the model's context",
                                          config.context),
                  .found = std::to_string(tokens.size(1)),
                  .hint = "record a shorter batch"});
  check_ids(recording, tokens, "tokens", config.vocab, 0);
  if (recording.targets().defined())
    check_ids(recording, recording.targets(), "targets", config.vocab,
              CrossEntropyOptions{}.ignore_index);
}

// Names from the file, as a person may read them.
std::string names_text(const std::vector<std::string>& names) {
  return visible(shortened(listed(names, "and"), 200));
}

void add_notes(TorchDiff& diff, const TorchRecording& recording) {
  if (!recording.random().empty())
    diff.notes.push_back(fmt::format(
        "the recorded model dropped elements at random, in {}: results after that cannot agree; "
        "record it after model.eval()",
        names_text(recording.random())));
  if (!recording.skipped().empty())
    diff.notes.push_back(
        fmt::format("not in the recording, being too large: {}", names_text(recording.skipped())));
  if (!recording.has_gradients()) {
    diff.notes.emplace_back("the recording has no gradients: only the forward is compared");
  } else if (!recording.targets().defined()) {
    diff.notes.emplace_back(
        "the recording has no targets, so gradients are not compared: give record() targets=");
  }
}

// Whether torch's loss is among the results that agree.
bool has_loss(const Observation& seen, const ForwardComparison& forward) {
  for (size_t i = 0; i < seen.results.size(); ++i) {
    if (seen.ops[seen.results[i].op].op == Op::cross_entropy) return forward.pairs()[i].agrees;
  }
  return false;
}

void count_results(TorchDiff& diff, const Observation& seen, const ForwardComparison& forward) {
  for (size_t i = 0; i < seen.results.size(); ++i) {
    const PairedResult& paired = forward.pairs()[i];
    if (paired.parts.empty()) continue;
    if (!paired.agrees) {
      diff.unpaired.push_back("activation/" + seen.results[i].place);
      continue;
    }
    ++(paired.is_noise ? diff.noise : diff.results);
    if (paired.is_noise) continue;
    diff.farthest = std::max(diff.farthest, paired.relative);
    diff.share = std::max(diff.share, paired.share);
  }
}

void compare_gradients(TorchDiff& diff, const ForwardInput& input, const ForwardComparison& forward,
                       const std::vector<PairedWeight>& weights, const TorchRecording& recording) {
  BackwardComparison backward(input, forward, weights, recording);
  diff.first = backward.first_difference();
  diff.gradients = backward.results();
  diff.noise += backward.noise();
  diff.parameter_gradients = backward.parameters();
  diff.farthest = std::max(diff.farthest, backward.farthest());
  diff.share = std::max(diff.share, backward.share());
}

}  // namespace

TorchDiff diff_torch(nn::LanguageModel& model, const TorchRecording& recording,
                     const train::InferencePrecision& precision) {
  check_batch(model.config(), recording);
  const std::vector<PairedWeight> weights = pair_weights(model, recording);
  TorchDiff diff;
  diff.roundoff = std::max(recording.roundoff(), roundoff_of(precision));
  add_notes(diff, recording);
  diff.first = different_weight(model, weights, recording);
  if (diff.first) return diff;
  diff.weights = static_cast<int64_t>(weights.size());
  const bool backward = recording.has_gradients() && recording.targets().defined();
  const Observation seen =
      observe(model, {recording.tokens(), recording.targets(), backward}, precision, diff.roundoff);
  const auto modules = torch_modules(weights);
  const ForwardInput input{model.config(), seen, modules, recording.tokens().numel(),
                           diff.roundoff};
  RecordedValues recorded(recording);
  ForwardComparison forward(input, recorded);
  count_results(diff, seen, forward);
  diff.first = forward.first_difference();
  if (!diff.first && diff.results == 0)
    fail("diff", {.argument = "precision",
                  .expected = "one whose rounding leaves something to compare",
                  .found = "one that may change every result by half",
                  .hint = "give --precision fp32"});
  if (diff.first || !backward) return diff;
  if (has_loss(seen, forward)) {
    compare_gradients(diff, input, forward, weights, recording);
  } else {
    diff.notes.emplace_back("the recording has no loss, so gradients are not compared");
  }
  return diff;
}

}  // namespace binade::lab
