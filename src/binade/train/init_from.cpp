#include "binade/train/init_from.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/huggingface.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/lora.h"
#include "binade/io/model_folder.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/reduce/reduce.h"

namespace binade::train {
namespace {

constexpr const char* init_op = "model";

int64_t kv_heads_of(const nn::LanguageModelConfig& config) {
  return config.kv_heads == 0 ? config.heads : config.kv_heads;
}

void check_same(const nn::LanguageModelConfig& expected, const nn::LanguageModelConfig& loaded,
                const std::filesystem::path& file, const std::string& hint) {
  const std::tuple<const char*, int64_t, int64_t> sizes[] = {
      {"layers", expected.layers, loaded.layers},
      {"width", expected.width, loaded.width},
      {"heads", expected.heads, loaded.heads},
      {"kv_heads", kv_heads_of(expected), kv_heads_of(loaded)},
      {"head_dim", expected.head_width(), loaded.head_width()},
      {"hidden", expected.hidden, loaded.hidden},
      {"context", expected.context, loaded.context},
      {"vocab", expected.vocab, loaded.vocab}};
  for (const auto& [name, needed, found] : sizes) {
    if (needed != found)
      fail(init_op, {.argument = file.string(),
                     .expected = fmt::format("a model with {} {}, as configured", name, needed),
                     .found = fmt::format("{}", found),
                     .hint = hint});
  }
  const std::string_view needed = io::family_of(expected).type, found = io::family_of(loaded).type;
  if (needed != found)
    fail(init_op, {.argument = file.string(),
                   .expected = fmt::format("a model of the configured family, {}", needed),
                   .found = std::string(found),
                   .hint = hint});
}

// A weight that is not finite makes every loss non-finite. In 16 bits, one beyond the type's range
// is infinite.
void require_finite(const nn::LanguageModel& model, const std::filesystem::path& directory) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.numel() == 0 || parameter.device().is_meta()) continue;
    const double largest = max(abs(parameter.detach())).item();
    if (std::isfinite(largest)) continue;
    const bool f16 = parameter.dtype() == DType::f16;
    fail(init_op,
         {.argument = directory.string() + " (" + name + ")",
          .expected = "weights that are finite in " + std::string(binade::name(parameter.dtype())),
          .found = fmt::format("{}", largest),
          .hint = f16 ? "bf16 has the range of f32: try --precision bf16" : ""});
  }
}

}  // namespace

std::filesystem::path check_initial_weights(const nn::LanguageModelConfig& expected,
                                            const std::filesystem::path& given) {
  const std::filesystem::path directory = io::model_folder(given, "--init-from"),
                              file = io::config_file(directory);
  nn::LanguageModelConfig loaded = io::read_config(file);
  if (expected.context > loaded.context) {
    fail(init_op,
         {.argument = file.string(),
          .expected = fmt::format("a context of at least {}, as configured", expected.context),
          .found = fmt::format("{}", loaded.context),
          .hint = fmt::format("use --context {} or less", loaded.context)});
  }
  loaded.context = expected.context;
  check_same(expected, loaded, file, "leave the sizes out: --init-from sets them");
  return directory;
}

void load_initial_weights(nn::LanguageModel& model, const std::filesystem::path& given) {
  const std::filesystem::path directory = check_initial_weights(model.config(), given);
  io::load_weights(model, directory);
  require_finite(model, directory);
}

void check_same_model(const nn::LanguageModelConfig& expected, const std::filesystem::path& file,
                      const std::string& hint) {
  check_same(expected, io::read_config(file), file, hint);
}

}  // namespace binade::train
