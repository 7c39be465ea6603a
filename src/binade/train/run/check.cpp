#include "binade/train/run/check.h"

#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/data/corpus.h"
#include "binade/io/huggingface.h"
#include "binade/ranks/sharded.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/choices.h"
#include "binade/train/config/component_options.h"
#include "binade/train/init_from.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/prometheus.h"

namespace binade::train {

void check_rank_device(Device device, int ranks) {
  if (ranks == 1 || !backend::capabilities(device).has_collectives) return;
  if (!ranks::nccl_version().empty()) return;
  fail("train", {.argument = "device",
                 .expected = "cpu on many ranks, or a build with NCCL",
                 .found = to_string(device),
                 .hint = "install NCCL and build again, or add --device cpu"});
}

void check_ranks(const Config& config, int ranks) {
  if (ranks == 1) return;
  // First: the hint for too few micro-batches is one that bf16 gradients exclude.
  if (config.precision.gradients != DType::f32) {
    fail("train", {.argument = "gradients",
                   .expected = "f32 on many ranks, which sum them",
                   .found = std::string(name_in(gradient_names, config.precision.gradients)),
                   .hint = "--reduce-dtype bf16 sends them in 16 bits"});
  }
  ranks::check_micro_batches(config.train.accumulate, ranks);
  const auto is_shared = [](const optim::Description& one) {
    return one.sharing != optim::Sharing::none;
  };
  if (is_shared(optim::describe(config.train.optimizer))) return;
  fail("train", {.argument = "optimizer",
                 .expected = optim::choices_of(is_shared) + " on many ranks",
                 .found = std::string(name_in(optimizer_names, config.train.optimizer)),
                 .hint = "its update of a matrix needs all of it, and ranks update parts"});
}

void check_run(const Config& config, int ranks) {
  check_device(config);
  check_ranks(config, ranks);
  check_rank_device(device_of(config), ranks);
  check_metrics_file(config.run.metrics_file);
  const auto checkpoint = check_run_folder(config);
  const nn::LanguageModelConfig model = model_config(config);
  if (checkpoint) {
    verify_checkpoint(checkpoint->path);
    // A checkpoint of adapters has no weights of the model itself.
    if (config.lora.rank == 0)
      check_same_model(model, checkpoint->path / "config.json",
                       "resume with the run's config.toml");
  }
  if (!config.model.init_from.empty() && (!checkpoint || config.lora.rank > 0)) {
    io::check_weights(model, check_initial_weights(model, config.model.init_from));
  }
  const auto tokenizer = data::open_tokenizer(config.data.tokenizer);
  data::Source source = data_source(config, tokenizer.get());
  source.cache = token_cache(config);
  data::read_split(source);
}

}  // namespace binade::train
