#include "binade/train/run/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/train/config/component_options.h"
#include "binade/train/config/epochs.h"
#include "binade/train/run/follow.h"

namespace binade::train {
namespace {

data::Split read_data(const Config& config, const data::Tokenizer* tokenizer, RunOutput& output) {
  output.status("reading " + config.data.source);
  data::Source source = data_source(config, tokenizer);
  source.progress = [&](size_t done, size_t all) {
    output.status(fmt::format("tokenizing {}: {}%", config.data.source,
                              100 * done / std::max<size_t>(all, 1)));
  };
  source.cache = token_cache(config);
  return data::read_split(source);
}

// The configuration, if all ranks agree on it.
const Config& agreed(const RunState& run) {
  agree_with_ranks(run.trainer, run.split, *run.tokenizer);
  return run.config;
}

}  // namespace

RunState::RunState(const Config& settings, Progress::Mode mode, Observer* receiver,
                   const std::shared_ptr<ranks::Communicator>& ranks)
    : config(settings),
      observer(receiver),
      output(mode, config.train.steps, config.run.log_every),
      tokenizer(data::open_tokenizer(config.data.tokenizer)),
      split(read_data(config, tokenizer.get(), output)),
      trainer(config, ranks),
      samples(trainer, *tokenizer, split.validation, output),
      folder(agreed(*this)),
      epoch_steps(steps_per_epoch(config, split.train)),
      meter({config, split.train, trainer.device(), begin}) {
  output.set_epoch(epoch_steps);
}

bool RunState::trains_bytes() const {
  return config.model.vocab == data::byte_vocabulary && tokenizer->model().empty();
}

}  // namespace binade::train
