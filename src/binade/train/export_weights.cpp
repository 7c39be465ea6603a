#include "binade/train/export_weights.h"

#include <algorithm>

#include "binade/autograd/grad_mode.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/safetensors.h"
#include "binade/ops/create/copy.h"
#include "binade/train/checkpoint.h"
#include "binade/train/config/config.h"

namespace binade::train {
namespace {

bool has_master_weights(const std::filesystem::path& checkpoint) {
  std::error_code ignored;  // reading the weights reports what is wrong
  if (io::is_adapter(checkpoint) || !std::filesystem::exists(checkpoint / "config.toml", ignored) ||
      !std::filesystem::exists(checkpoint / trainer_state_file, ignored))
    return false;
  const io::SafetensorsFile state(checkpoint / trainer_state_file);
  return std::any_of(state.entries().begin(), state.entries().end(),
                     [](const io::TensorEntry& entry) { return entry.name.ends_with(".master"); });
}

}  // namespace

std::unique_ptr<nn::LanguageModel> load_exact(const std::filesystem::path& folder) {
  auto model = io::load_pretrained(folder, {Device::cpu(), DType::f32});
  if (!has_master_weights(folder)) return model;
  Config config = resolve({.file = folder / "config.toml", .options = {}});
  config.train.device = Device::cpu();
  // The order of master weights in the file is the optimizer's.
  Trainer trainer(config);
  load_checkpoint(trainer, folder);
  const NoGrad no_grad;
  const auto exact = trainer.model().parameters(), stored = model->parameters();
  for (size_t i = 0; i < stored.size(); ++i) {
    if (exact[i].requires_grad()) copy_(stored[i], trainer.optimizer().master_of(exact[i]));
  }
  return model;
}

}  // namespace binade::train
