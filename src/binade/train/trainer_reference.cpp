#include <algorithm>
#include <memory>
#include <utility>

#include "binade/amp/autocast.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/data/documents.h"
#include "binade/train/eval_mode.h"
#include "binade/train/micro_batch.h"
#include "binade/train/trainer.h"

// What a Trainer knows of the model that it started from.
namespace binade::train {
namespace {

data::Tokens with_reference(const data::Tokens& pairs, const std::vector<float>& log_probs) {
  if (!pairs.documents()) return pairs;
  const int64_t count = pairs.documents()->size();
  if (std::cmp_not_equal(log_probs.size(), count))
    fail("train", {.argument = "the reference's log-probabilities in the checkpoint",
                   .expected = std::to_string(count) + ", one for each answer of the data",
                   .found = std::to_string(log_probs.size()),
                   .hint = "restore the data that the run was trained on"});
  return pairs.with_documents(
      std::make_shared<const data::Documents>(pairs.documents()->with_reference(log_probs)));
}

}  // namespace

// Batches of the size of a step's, so that the model's first losses are those of equal models to
// the last bit. The last one begins earlier, to be full.
std::vector<float> Trainer::reference_log_probs(const data::Tokens& pairs,
                                                const data::Progress& progress) {
  if (!pairs.documents()) return {};
  const data::Documents& documents = *pairs.documents();
  const int64_t rows = documents.rows(), batch = std::min(config_.train.batch, rows),
                count = divide_up(rows, batch);
  const auto begin_of = [&](int64_t i) { return std::min(i * batch, rows - batch); };
  const NoGrad no_grad;
  const EvalMode eval_mode(*model_);
  const amp::Autocast cast(autocast_);
  const std::vector<double> values = sharded_->run_forwards(
      count,
      [&](int64_t i) {
        if (progress) progress(static_cast<size_t>(i), static_cast<size_t>(count));
        const data::Batch next =
            documents.consecutive_batch({batch, config_.model.context}, begin_of(i));
        return pair_log_probs(*model_, on_device(next, device_));
      },
      2 * batch);
  std::vector<float> result(static_cast<size_t>(documents.size()));
  for (int64_t i = 0; i < count; ++i) {
    const auto from = values.begin() + 2 * i * batch;
    std::transform(from, from + 2 * batch, result.begin() + 2 * begin_of(i),
                   [](double value) { return static_cast<float>(value); });
  }
  return result;
}

void Trainer::prepare_reference(data::Split& split, const data::Progress& progress) {
  if (!config_.objective.has_pairs()) return;
  announce({Order::reference});
  if (!reference_)
    reference_ = Reference{.train = reference_log_probs(split.train, progress),
                           .validation = reference_log_probs(split.validation, progress)};
  split.train = with_reference(split.train, reference_->train);
  split.validation = with_reference(split.validation, reference_->validation);
}

}  // namespace binade::train
