#include "binade/train/config/epochs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/error.h"
#include "binade/data/corpus.h"
#include "binade/data/documents.h"
#include "binade/data/mixture.h"
#include "binade/train/config/component_options.h"

namespace binade::train {
namespace {

constexpr double max_steps = 1e9;  // as of the key

}  // namespace

double steps_per_epoch(const Config& config, const data::Tokens& train) {
  const TrainSettings& settings = config.train;
  const auto rows = static_cast<double>(settings.batch * settings.accumulate);
  if (data::mixture_of(config.data.source).size() > 1) return 0;
  if (train.documents()) return static_cast<double>(train.documents()->rows()) / rows;
  return static_cast<double>(train.size()) / (rows * static_cast<double>(config.model.context));
}

int64_t steps_of_epochs(const Config& config) {
  if (data::mixture_of(config.data.source).size() > 1)
    fail("config", {.argument = "--epochs",
                    .expected = "one source of data",
                    .found = "a mixture, whose sources are drawn by weight",
                    .hint = "--steps says how long to train on it"});
  const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
  data::Source source = data_source(config, tokenizer.get());
  source.cache = token_cache(config);
  const double one = steps_per_epoch(config, data::read_split(source).train);
  // A sum of rounding errors must not add a step.
  const double steps = std::max(1.0, std::ceil(config.train.epochs * one * (1 - 1e-12)));
  if (steps > max_steps)
    fail("config", {.argument = "--epochs",
                    .expected = fmt::format("at most {:.0f} steps", max_steps),
                    .found = fmt::format("{:.0f}, of {:.1f} each", steps, one)});
  return static_cast<int64_t>(steps);
}

std::string epochs_text(double epochs) {
  std::string text = fmt::format("{:.2f}", epochs);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace binade::train
