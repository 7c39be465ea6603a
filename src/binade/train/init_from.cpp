#include "binade/train/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "binade/base/error.h"
#include "binade/io/huggingface.h"
#include "binade/train/model_folder.h"

namespace binade::train {
namespace {

constexpr const char* who = "model";

int64_t kv_heads_of(const nn::LanguageModelConfig& config) {
  return config.kv_heads == 0 ? config.heads : config.kv_heads;
}

void check_same(const nn::LanguageModelConfig& ours, const nn::LanguageModelConfig& theirs,
                const std::filesystem::path& file, const std::string& hint) {
  const std::tuple<const char*, int64_t, int64_t> sizes[] = {
      {"layers", ours.layers, theirs.layers}, {"width", ours.width, theirs.width},
      {"heads", ours.heads, theirs.heads},    {"kv_heads", kv_heads_of(ours), kv_heads_of(theirs)},
      {"hidden", ours.hidden, theirs.hidden}, {"context", ours.context, theirs.context},
      {"vocab", ours.vocab, theirs.vocab}};
  for (const auto& [name, mine, other] : sizes) {
    if (mine != other)
      fail(who, {.argument = file.string(),
                 .expected = fmt::format("a model with {} {}, as configured", name, mine),
                 .found = fmt::format("{}", other),
                 .hint = hint});
  }
  if (ours.norm != theirs.norm)
    fail(who, {.argument = file.string(),
               .expected = "a model of the configured family",
               .found = "the other one",
               .hint = hint});
}

}  // namespace

void apply_init_from(Config& config) {
  const nn::LanguageModelConfig model =
      io::read_config(model_folder(config.init_from, "--init-from") / "config.json");
  config.model = model.norm == nn::NormKind::rms ? "llama" : "gpt2";
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.kv_heads = kv_heads_of(model);
  config.hidden = model.hidden;
  config.context = model.context;
  config.vocab = model.vocab;
  config.tied_head = model.tied_head ? "true" : "false";
  config.norm_eps = model.eps;
  config.rope_theta = model.rope_theta;
}

void load_initial_weights(nn::LanguageModel& model, const std::filesystem::path& given) {
  const std::filesystem::path directory = model_folder(given, "--init-from"),
                              file = directory / "config.json";
  nn::LanguageModelConfig theirs = io::read_config(file);
  if (model.config().context > theirs.context) {
    fail(who, {.argument = file.string(),
               .expected =
                   fmt::format("a context of at least {}, as configured", model.config().context),
               .found = fmt::format("{}", theirs.context),
               .hint = fmt::format("use --context {} or less", theirs.context)});
  }
  theirs.context = model.config().context;
  check_same(model.config(), theirs, file, "leave the sizes out: --init-from sets them");
  io::load_weights(model, directory);
}

void check_same_model(const nn::LanguageModelConfig& ours, const std::filesystem::path& file,
                      const std::string& hint) {
  check_same(ours, io::read_config(file), file, hint);
}

}  // namespace binade::train
