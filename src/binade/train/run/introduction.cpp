#include "binade/train/run/introduction.h"

#include <fmt/format.h>

#include "binade/base/parallel.h"
#include "binade/base/text.h"
#include "binade/data/documents.h"
#include "binade/train/config/epochs.h"

namespace binade::train {
namespace {

std::string describe_model(Trainer& trainer, const Config& config) {
  const std::string& family = trainer.model().config().family;
  const int64_t all = trainer.model().parameter_count(),
                trained = trained_parameters(trainer.model());
  const int ranks = trainer.ranks().size();
  return fmt::format(
      "{} {}, {} parameters{}, {}, {}{} thread{}",
      config.run.resume ? fmt::format("resuming at step {}:", trainer.steps()) : "training",
      family.empty() ? name(config.model.family) : family, grouped(all),
      trained < all ? fmt::format(" ({} trained)", grouped(trained)) : "",
      name(config.precision.matmul), ranks == 1 ? "" : fmt::format("{} ranks with ", ranks),
      threads(), threads() == 1 ? "" : "s");
}

std::string describe_memory(const Trainer& trainer, const Arrangement& chosen,
                            const Config& config) {
  std::string line = "memory of the run: " + describe(chosen, config);
  for (const std::string& saving : savings(chosen, config, trainer.ranks())) line += "; " + saving;
  return line;
}

// "; an epoch is 91.8 steps", or what --epochs came to.
std::string describe_epochs(const Config& config, const data::Split& split) {
  const double one = steps_per_epoch(config, split.train);
  if (one == 0) return "";
  const double epochs = config.train.epochs;
  const std::string steps = fmt::format("{:.{}f} steps", one, one < 100 ? 1 : 0);
  if (epochs == 0) return "; an epoch is " + steps;
  return fmt::format("; {} epoch{} of {} {} {}", epochs_text(epochs), epochs == 1 ? "" : "s", steps,
                     epochs == 1 ? "is" : "are", grouped(config.train.steps));
}

std::string describe_examples(const data::Documents& train, const data::Documents& validation) {
  if (train.paired())
    return fmt::format("pairs: {} to train on and {} to validate on; the loss compares answers",
                       grouped(train.rows()), grouped(validation.rows()));
  return fmt::format("examples: {} to train on and {} to validate on; the loss counts answers",
                     grouped(train.size()), grouped(validation.size()));
}

}  // namespace

std::optional<Arrangement> chosen_arrangement(const Trainer& trainer, const Config& config) {
  if (config.train.activations) return {};
  return trainer.arrangement();
}

std::vector<std::string> introduction(Trainer& trainer, const Config& config,
                                      const data::Split& split, const char* unit) {
  std::vector<std::string> lines = {describe_model(trainer, config)};
  lines.push_back(fmt::format("data: {} training and {} validation {}{}",
                              grouped(split.train.size()), grouped(split.validation.size()), unit,
                              describe_epochs(config, split)));
  if (split.train.documents())
    lines.push_back(describe_examples(*split.train.documents(), *split.validation.documents()));
  if (const auto chosen = chosen_arrangement(trainer, config))
    lines.push_back(describe_memory(trainer, *chosen, config));
  return lines;
}

}  // namespace binade::train
