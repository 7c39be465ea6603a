#include "binade/io/gguf/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/io/gguf/architecture.h"
#include "binade/io/gguf/rope_divisors.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/linear_targets.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/elementwise/arithmetic.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::io::gguf {
namespace {

using nn::LanguageModelConfig;
using nn::RopeScalingKind;

[[noreturn]] void refuse_model(const std::string& what, const std::string& expected,
                               const std::string& found) {
  fail("export", {.argument = what,
                  .expected = expected + ": GGUF has no keys for anything else",
                  .found = found,
                  .hint = "export it as a folder of Hugging Face's"});
}

bool is_gemma(const Architecture& architecture) { return architecture.name.starts_with("gemma"); }

// Every n-th layer sees all keys, the others a window; 1: all layers do. None if the layers are
// sliding in another order.
std::optional<int64_t> window_period(const LanguageModelConfig& config) {
  for (int64_t period = 1; period <= config.layers + 1; ++period) {
    bool fits = true;
    for (int64_t i = 0; i < config.layers && fits; ++i)
      fits = (config.window_of(i) != 0) == ((i + 1) % period != 0);
    if (fits) return period;
  }
  return {};
}

void check_windows(const Architecture& architecture, const LanguageModelConfig& config) {
  if (is_gemma(architecture)) {
    const auto period = window_period(config);
    const bool fits = architecture.name == "gemma3" ? period.has_value() : period == 2;
    // A window of the whole context is none.
    if (!fits && config.window != 0 && config.window < config.context)
      refuse_model("sliding layers", "those of the family", "others");
    if (!fits && architecture.name == "gemma3" && config.local_rope_theta)
      refuse_model("sliding layers", "those of the family", "others");
    return;
  }
  if (config.window != 0 && config.window < config.context)
    refuse_model("sliding window", "none, since llama.cpp does not apply it to this architecture",
                 fmt::format("{} of {} tokens", config.window, config.context));
}

void check_scores(const Architecture& architecture, const LanguageModelConfig& config) {
  if (!config.attention_scale) return;
  const int64_t other = architecture.name == "gemma2" ? 46 : 62;
  const int64_t size = config.layers == other ? config.width / config.heads : config.head_width();
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  if (std::abs(*config.attention_scale / scale - 1) < 1e-6) return;
  refuse_model("query_pre_attn_scalar", fmt::format("{}, the size of a head", size),
               fmt::format("{}", 1 / (*config.attention_scale * *config.attention_scale)));
}

void check_rope(const Architecture& architecture, const LanguageModelConfig& config) {
  if (config.rope_scaling.kind == RopeScalingKind::llama3 && architecture.name != "llama")
    refuse_model("llama3 rope scaling", "none in this architecture", "one");
}

void check_biases(const Architecture& architecture, const LanguageModelConfig& config) {
  const LanguageModelConfig& facts = family_of(config).facts;
  const auto qkv = [](const LanguageModelConfig& c) { return c.qkv_bias.value_or(c.bias); };
  const auto out = [](const LanguageModelConfig& c) { return c.out_bias.value_or(c.bias); };
  if (architecture.optional_bias || (qkv(config) == qkv(facts) && out(config) == out(facts)))
    return;
  refuse_model("attention biases", "those of the family", "others");
}

// general.file_type.
int64_t file_type(const TensorType& type) {
  constexpr std::pair<std::string_view, int64_t> numbers[] = {
      {"F32", 0},   {"F16", 1},   {"Q4_0", 2},  {"Q8_0", 7},
      {"Q4_K", 14}, {"Q6_K", 18}, {"BF16", 32}, {"MXFP4", 38}};
  for (const auto& [name, number] : numbers)
    if (name == type.name) return number;
  return 0;
}

void add_rope_keys(Writer& out, const std::string& prefix, const Architecture& architecture,
                   const LanguageModelConfig& config) {
  if (config.learned_positions) return;
  out.add_u32(prefix + "rope.dimension_count",
              config.rotary_dim != 0 ? config.rotary_dim : config.head_width());
  out.add_f32(prefix + "rope.freq_base", config.rope_theta);
  if (config.local_rope_theta) out.add_f32(prefix + "rope.freq_base_swa", *config.local_rope_theta);
  if (config.rope_scaling.kind == RopeScalingKind::linear) {
    out.add(prefix + "rope.scaling.type", "linear");
    out.add_f32(prefix + "rope.scaling.factor", config.rope_scaling.factor);
  } else if (config.rope_scaling.kind == RopeScalingKind::llama3) {
    out.add_u32(prefix + "rope.scaling.original_context_length",
                config.rope_scaling.original_context);
  } else if (architecture.name == "phi3") {
    out.add_u32(prefix + "rope.scaling.original_context_length", config.context);
  }
}

void add_window_keys(Writer& out, const std::string& prefix, const Architecture& architecture,
                     const LanguageModelConfig& config) {
  if (architecture.name == "phi3") out.add_u32(prefix + "attention.sliding_window", config.window);
  if (!is_gemma(architecture)) return;
  // A window of the whole context is none.
  out.add_u32(prefix + "attention.sliding_window",
              config.window == 0 ? config.context : config.window);
  const int64_t period = window_period(config).value_or(0);
  if (architecture.name == "gemma3" && period != 6)
    out.add_u32(prefix + "attention.sliding_window_pattern", period);
}

void add_model_keys(Writer& out, const Architecture& architecture,
                    const LanguageModelConfig& config) {
  const std::string prefix = std::string(architecture.name) + ".";
  out.add_u32(prefix + "block_count", config.layers);
  out.add_u32(prefix + "context_length", config.context);
  out.add_u32(prefix + "embedding_length", config.width);
  out.add_u32(prefix + "feed_forward_length", config.hidden);
  out.add_u32(prefix + "attention.head_count", config.heads);
  out.add_u32(prefix + "attention.head_count_kv",
              config.kv_heads == 0 ? config.heads : config.kv_heads);
  if (!config.learned_positions) {
    out.add_u32(prefix + "attention.key_length", config.head_width());
    out.add_u32(prefix + "attention.value_length", config.head_width());
  }
  out.add_f32(prefix + std::string(architecture.norm_key), config.eps);
  out.add_u32(prefix + "vocab_size", config.vocab);
  add_rope_keys(out, prefix, architecture, config);
  add_window_keys(out, prefix, architecture, config);
  if (config.attention_softcap != 0)
    out.add_f32(prefix + "attn_logit_softcapping", config.attention_softcap);
  if (config.logit_softcap != 0)
    out.add_f32(prefix + "final_logit_softcapping", config.logit_softcap);
  if (architecture.name == "gptneox")
    out.add_flag(prefix + "use_parallel_residual", config.block == nn::BlockKind::parallel);
}

const TensorType& type_of(std::string_view name) { return *find_tensor_type(name); }

bool is_matrix(const std::string& name, const Shape& shape) {
  return shape.rank() == 2 && name.ends_with(".weight") && !name.ends_with("_norm.weight") &&
         !name.starts_with("position_embd");
}

// The type of a tensor in a file whose matrices have `type`.
const TensorType& type_of(const std::string& name, const Shape& shape, const TensorType& type,
                          bool is_head) {
  if (!is_matrix(name, shape)) return type_of("F32");
  const bool has_four_bits = type.blocks() != nullptr && type.blocks()->name.find('4') == 1;
  const TensorType* chosen =
      is_head && (has_four_bits || type.name == "MXFP4") ? &type_of("Q6_K") : &type;
  const int64_t row = shape[1];
  if (row % chosen->elements != 0) chosen = &type_of("Q8_0");
  if (row % chosen->elements != 0) chosen = &type_of("F16");
  return *chosen;
}

// The values of a part as the file holds them.
Tensor values_of(const StateDict& parameters, const NamedPart& part) {
  const NoGrad no_grad;
  Tensor values = cast(to(view_of(parameters, part), Device::cpu()), DType::f32);
  if (part.plus_one) values = values + 1.0;
  return reshape(contiguous(values), file_shape(parameters, part));
}

// Hugging Face's names of the weights that were rounded in training.
std::set<std::string> rounded_weights(const nn::LanguageModel& model,
                                      const WeightFormatOptions& trained) {
  std::set<std::string> names;
  for (const LinearTarget& one : linear_targets(model)) {
    const auto is_it = [&](const std::string& name) { return names_module(name, one.module); };
    if (std::none_of(trained.exclude.begin(), trained.exclude.end(), is_it))
      names.insert(one.part.file_name);
  }
  if (trained.head) names.insert(std::string(family_of(model.config()).head));
  return names;
}

void add_tensors(Writer& out, const Architecture& architecture, const nn::LanguageModel& model,
                 const TensorType& type, const WeightFormatOptions& trained) {
  const LanguageModelConfig& config = model.config();
  const StateDict parameters = parameters_of(model);
  const bool was_rounded = !trained.format.empty();
  const std::set<std::string> rounded =
      was_rounded ? rounded_weights(model, trained) : std::set<std::string>();
  const auto type_in_file = [&](const std::string& name, const NamedPart& part, const Shape& shape,
                                bool is_head) -> const TensorType& {
    if (!was_rounded || !is_matrix(name, shape)) return type_of(name, shape, type, is_head);
    return rounded.contains(part.part.file_name) ? type : type_of("F16");
  };
  const auto add = [&](const std::string& name, const NamedPart& part, bool is_head) {
    const Shape shape = file_shape(parameters, part);
    out.add_tensor(name, shape, type_in_file(name, part, shape, is_head),
                   [parameters, part] { return values_of(parameters, part); });
  };
  for (const NamedPart& part : named_parts(architecture, config, parameters)) {
    const bool is_embedding = part.name == embedding_weight;
    add(part.name, part, part.name == output_weight || (is_embedding && config.tied_head));
    if (is_embedding && config.tied_head && architecture.needs_output)
      add(std::string(output_weight), part, true);
  }
  if (config.rope_scaling.kind != RopeScalingKind::llama3) return;
  const int64_t rotated = config.rotary_dim != 0 ? config.rotary_dim : config.head_width();
  const std::vector<float> divisors =
      llama3_divisors(rotated, config.rope_theta, config.rope_scaling);
  out.add_tensor(std::string(rope_divisors), {rotated / 2}, type_of("F32"), [divisors] {
    Tensor values = Tensor::empty({static_cast<int64_t>(divisors.size())}, DType::f32);
    std::copy(divisors.begin(), divisors.end(), static_cast<float*>(values.raw_data()));
    return values;
  });
}

}  // namespace

void check_exportable(const LanguageModelConfig& config) {
  const Architecture& architecture = architecture_of(config);
  check_windows(architecture, config);
  check_scores(architecture, config);
  check_rope(architecture, config);
  check_biases(architecture, config);
}

void save(const nn::LanguageModel& model, const Path& path, const SaveOptions& options) {
  const Architecture& architecture = architecture_of(model.config());
  check_exportable(model.config());
  const TensorType& type = options.type != nullptr ? *options.type : type_of("F32");
  Writer out;
  out.add("general.architecture", architecture.name);
  out.add("general.type", "model");
  out.add_u32("general.quantization_version", 2);
  out.add_u32("general.file_type", file_type(type));
  add_model_keys(out, architecture, model.config());
  if (options.add_tokenizer) options.add_tokenizer(out);
  add_tensors(out, architecture, model, type, options.trained);
  out.write(path);
}

}  // namespace binade::io::gguf
