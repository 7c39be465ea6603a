#include "binade/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <span>
#include <system_error>

#include "binade/amp/diverged_error.h"
#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/data/tokenizer.h"
#include "binade/io/file.h"
#include "binade/io/folder.h"
#include "binade/io/huggingface.h"
#include "binade/io/lora.h"
#include "binade/io/manifest.h"
#include "binade/ops/create/copy.h"
#include "binade/tensor/memory.h"
#include "binade/train/init_from.h"

namespace binade::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* checkpoint_op = "checkpoint";
constexpr std::string_view unfinished_prefix = ".step-";  // of folders being written or removed

void write_text(const io::Path& path, std::string_view text) {
  io::AtomicFile file(path, checkpoint_op);
  file.append(text);
  file.commit();
}

// Renames the folder first, so that a partly removed one does not look like a checkpoint.
void remove_checkpoint(const io::Path& path) {
  const io::Path removed = path.beside("." + path.filename() + ".old");
  removed.remove_all();
  if (path.rename_to(removed)) removed.remove_all();
}

bool is_complete(const io::Path& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void require_finite(Trainer& trainer) {
  for (const auto& [name, parameter] : trainer.model().named_parameters()) {
    if (!parameter.requires_grad()) continue;
    const Tensor master = to(trainer.optimizer().master_of(parameter), Device::cpu());
    const std::span values(master.data<float>(), static_cast<size_t>(master.numel()));
    const auto bad = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad == values.end()) continue;
    throw amp::DivergedError(checkpoint_op,
                             {.argument = name,
                              .expected = "finite weights",
                              .found = fmt::format("{}", *bad),
                              .hint = "nothing was written; earlier checkpoints are untouched"});
  }
}

Snapshot take_snapshot(Trainer& trainer, std::string_view tokenizer,
                       const io::CompanionFiles& companions) {
  require_finite(trainer);
  const memory::CategoryGuard category(memory::Category::workspace);
  const NoGrad no_grad;
  Snapshot snapshot{.step = trainer.steps(),
                    .model = trainer.model().config(),
                    .weights = {},
                    .state = trainer.state_dict(),
                    .config = to_toml(trainer.config()),
                    .tokenizer = std::string(tokenizer),
                    .companions = companions,
                    .origin = {},
                    .hash = trainer.hash()};
  const Config& config = trainer.config();
  if (config.lora.rank > 0) {
    snapshot.weights = io::adapter_tensors(trainer.model());
    const io::LoraOptions lora{.rank = config.lora.rank,
                               .alpha = config.lora.alpha,
                               .dropout = config.lora.dropout,
                               .targets = config.lora.targets};
    const fs::path base = io::model_folder(config.model.init_from, checkpoint_op);
    snapshot.adapter =
        io::adapter_config_json(trainer.model(), {lora, fs::absolute(base).string()});
    if (config.lora.base.format != nullptr)
      snapshot.adapter_facts[io::base_format_key] = std::string(config.lora.base.format->name);
  } else if (!trainer.shares_weights()) {
    snapshot.weights = io::to_huggingface(trainer.model());
  }
  snapshot.dtype = snapshot.weights.empty() ? trainer.model().parameters().front().dtype()
                                            : snapshot.weights.begin()->second.dtype();
  for (auto& [name, tensor] : snapshot.weights) tensor = to(tensor, Device::cpu());
  for (auto& [name, tensor] : snapshot.state) {
    const Tensor host = to(tensor, Device::cpu());
    tensor = tensor.device() == Device::cpu() ? clone(host) : host;
  }
  return snapshot;
}

bool has_checkpoint(const io::Path& folder, int64_t step) {
  const io::Path target = folder / io::checkpoint_name(step);
  target.require(io::EntryKind::folder, checkpoint_op);
  return target.exists() && is_complete(target);
}

void write_files(const Snapshot& snapshot, const io::Path& folder) {
  if (!snapshot.adapter.empty()) {
    io::save_safetensors(folder / "adapter_model.safetensors", snapshot.weights,
                         snapshot.adapter_facts);
    write_text(folder / "adapter_config.json", snapshot.adapter);
  } else if (!snapshot.weights.empty()) {
    io::save_safetensors(folder / "model.safetensors", snapshot.weights);
  }
  io::write_config(folder / "config.json", snapshot.model, snapshot.dtype);
  if (!snapshot.state.empty()) io::save_safetensors(folder / trainer_state_file, snapshot.state);
  write_text(folder / "config.toml", snapshot.config);
  if (!snapshot.tokenizer.empty())
    write_text(folder / data::tokenizer_file(snapshot.tokenizer), snapshot.tokenizer);
  io::write_companions(snapshot.companions, folder, checkpoint_op);
}

io::Manifest manifest_of(const Snapshot& snapshot) {
  const Origin& origin = snapshot.origin;
  return {.step = snapshot.step,
          .facts = {{"run", origin.run},
                    {"data", origin.data},
                    {"arithmetic", origin.arithmetic},
                    {"binade", origin.version},
                    {"base", origin.base},
                    {"hash", snapshot.state.empty() ? "" : to_text(snapshot.hash)},
                    {"link", snapshot.link}},
          .files = {}};
}

void write_manifest(const io::Manifest& manifest, const io::Path& folder) {
  write_text(folder / "manifest.json", io::manifest_text(folder, manifest, checkpoint_op));
}

void remove_old_checkpoints(const io::Path& folder, int64_t keep) {
  const std::vector<Checkpoint> all = list_checkpoints(folder);
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i)
    remove_checkpoint(folder / io::checkpoint_name(all[i].step));
}

fs::path write_checkpoint(const Snapshot& snapshot, const io::Path& folder, int64_t keep) {
  const io::Path target = folder / io::checkpoint_name(snapshot.step);
  // The same step of the same run has the same bytes.
  if (has_checkpoint(folder, snapshot.step)) return target.plain();
  write_model(snapshot, target);
  remove_old_checkpoints(folder, keep);
  return target.plain();
}

void write_model(const Snapshot& snapshot, const io::Path& folder) {
  io::AtomicFolder target(folder, checkpoint_op);
  write_files(snapshot, target.path());
  write_manifest(manifest_of(snapshot), target.path());
  target.commit([](const std::string&) { return false; });
}

fs::path save_checkpoint(Trainer& trainer, const io::Path& folder, int64_t keep,
                         std::string_view tokenizer) {
  return write_checkpoint(take_snapshot(trainer, tokenizer), folder, keep);
}

Origin read_origin(const io::Path& checkpoint) {
  std::map<std::string, std::string> facts = io::read_manifest(checkpoint, checkpoint_op).facts;
  return {facts["run"], facts["data"], facts["arithmetic"], facts["binade"], facts["base"]};
}

CheckpointHash read_hash(const io::Path& checkpoint) {
  std::map<std::string, std::string> facts = io::read_manifest(checkpoint, checkpoint_op).facts;
  return {parse_state_hash(facts["hash"]), parse_link_name(facts["link"])};
}

void verify_checkpoint(const io::Path& checkpoint) {
  const io::Manifest manifest = io::verify_files(checkpoint, checkpoint_op);
  if (!manifest.files.contains(trainer_state_file))
    fail(checkpoint_op,
         {.argument = (checkpoint / "manifest.json").string(),
          .expected = fmt::format("the file {}, the state for resuming", trainer_state_file),
          .found = "none: a model alone"});
}

void load_checkpoint(Trainer& trainer, const fs::path& checkpoint) {
  verify_checkpoint(checkpoint);
  check_same_model(trainer.model().config(), checkpoint / "config.json",
                   "resume with the run's own config.toml");
  const StateDict state = io::load_safetensors(checkpoint / trainer_state_file);
  trainer.hold_weights();
  if (trainer.config().lora.rank > 0) {
    io::load_adapter_tensors(trainer.model(),
                             io::load_safetensors(checkpoint / "adapter_model.safetensors"));
  } else {
    io::load_weights(trainer.model(), checkpoint);
  }
  trainer.load_state_dict(state);
}

void remove_leftovers(const io::Path& folder) {
  for (const std::string& name : folder.names()) {
    if (name.starts_with(unfinished_prefix)) (folder / name).remove_all();
  }
}

}  // namespace binade::train
