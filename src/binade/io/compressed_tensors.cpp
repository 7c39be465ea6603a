#include "binade/io/compressed_tensors.h"

#include <algorithm>

#include "binade/autograd/grad_mode.h"
#include "binade/formats/convert.h"
#include "binade/io/huggingface_config.h"
#include "binade/io/weight_targets.h"
#include "binade/ops/elementwise/unary.h"
#include "binade/ops/shape/shape.h"

namespace binade::io {
namespace {

using formats::GroupedWeight;
using formats::WeightFormat;

constexpr const char* compressor = "compressed-tensors";

// How compressed-tensors calls a format, and the settings of its quantizer.
struct Scheme {
  std::string_view format;      // of WeightFormat
  std::string_view layout;      // "nvfp4-pack-quantized"
  std::string_view type;        // of codes: int or float
  std::string_view strategy;    // which elements share a scale
  std::string_view scale = {};  // the type of scales, if it is not that of weights
};

constexpr Scheme schemes[] = {
    {"int4-g128", "pack-quantized", "int", "group"},
    {"nvfp4", "nvfp4-pack-quantized", "float", "tensor_group", "torch.float8_e4m3fn"},
    {"fp8-block", "float-quantized", "float", "block"},
};

const Scheme& scheme_of(const WeightFormat& format) {
  std::string known;
  for (const Scheme& scheme : schemes) {
    if (scheme.format == format.name) return scheme;
    known += (known.empty() ? "" : ", ") + std::string(scheme.format);
  }
  fail(compressor,
       {.argument = "format",
        .expected = known,
        .found = std::string(format.name) + ", which is for " + std::string(format.program)});
}

const WeightFormat& format_of_options(const WeightFormatOptions& options) {
  const WeightFormat* format = formats::find_weight_format(options.format);
  if (format == nullptr)
    fail(compressor, {.argument = "format",
                      .expected = formats::weight_format_names(),
                      .found = options.format.empty() ? "none" : options.format});
  return *format;
}

template <class T>
Tensor tensor_of(const std::vector<T>& values, const Shape& shape, DType dtype) {
  const Tensor tensor = Tensor::empty(shape, dtype, Device::cpu());
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.raw_data()));
  return tensor;
}

// Codes of 4 bits, `Word` by word, the first in the lowest bits.
template <class Word>
std::vector<Word> packed_codes(const std::vector<uint8_t>& codes) {
  constexpr size_t per_word = sizeof(Word) * 2;
  std::vector<Word> words(codes.size() / per_word);
  for (size_t i = 0; i < codes.size(); ++i)
    words[i / per_word] |= static_cast<Word>(static_cast<Word>(codes[i]) << (i % per_word * 4));
  return words;
}

// The tensors of one layer's weight [out, in], whose rows are in the file's order.
void add_compressed(const WeightFormat& format, const std::string& module, const Tensor& given,
                    StateDict& tensors) {
  const Tensor weight = contiguous(cast(given, DType::f32));
  const int64_t out = weight.size(0), in = weight.size(1), groups = in / format.group_columns;
  const GroupedWeight coded = formats::encode_weight(format, {weight.data<float>(), out, in});
  const Shape scale_shape{static_cast<int64_t>(coded.scales.size()) / groups, groups};
  const Tensor scale = tensor_of(coded.scales, scale_shape, DType::f32);
  if (format.name == "fp8-block") {
    tensors[module + ".weight"] = tensor_of(coded.codes, {out, in}, DType::e4m3);
    tensors[module + ".weight_scale"] = scale;
    return;
  }
  if (format.name == "nvfp4") {
    tensors[module + ".weight_packed"] =
        tensor_of(packed_codes<uint8_t>(coded.codes), {out, in / 2}, DType::u8);
    const Tensor stored = Tensor::empty(scale_shape, DType::e4m3, Device::cpu());
    formats::narrow(coded.scales.data(), stored.mutable_data<e4m3>(), coded.scales.size());
    tensors[module + ".weight_scale"] = stored;
    tensors[module + ".weight_global_scale"] =
        tensor_of(std::vector<float>{coded.tensor_scale}, {1}, DType::f32);
    return;
  }
  const std::vector<uint32_t> words = packed_codes<uint32_t>(coded.codes);
  tensors[module + ".weight_packed"] =
      tensor_of(std::vector<int32_t>(words.begin(), words.end()), {out, in / 8}, DType::i32);
  tensors[module + ".weight_scale"] = scale;
  tensors[module + ".weight_shape"] = tensor_of(std::vector<int64_t>{out, in}, {2}, DType::i64);
}

std::string head_module(const nn::LanguageModel& model) {
  const std::string name(family_of(model.config()).head);
  return name.substr(0, name.size() - std::string_view(".weight").size());
}

// The linear layers that readers must leave as they are.
std::vector<std::string> ignored_modules(nn::LanguageModel& model,
                                         const WeightFormatOptions& options) {
  std::vector<std::string> ignored;
  if (!options.head) ignored.push_back(head_module(model));
  const std::vector<LinearTarget> formatted = formatted_targets(model, options);
  for (const LinearTarget& one : linear_targets(model)) {
    const auto is_it = [&](const LinearTarget& other) { return other.module == one.module; };
    if (std::none_of(formatted.begin(), formatted.end(), is_it)) ignored.push_back(one.module);
  }
  return ignored;
}

void write_weights(json::Writer& out, const WeightFormat& format, const Scheme& scheme) {
  out.begin_object().key("num_bits").value(format.groups->bits);
  out.key("type").value(scheme.type).key("strategy").value(scheme.strategy);
  out.key("symmetric").value(true).key("dynamic").value(false);
  if (format.group_rows == 1) {
    out.key("group_size").value(format.group_columns);
  } else {
    out.key("block_structure").begin_array();
    out.value(format.group_rows).value(format.group_columns).end_array();
  }
  if (!scheme.scale.empty()) out.key("scale_dtype").value(scheme.scale);
  out.end_object();
}

void write_quantization(json::Writer& out, nn::LanguageModel& model,
                        const WeightFormatOptions& options) {
  const WeightFormat& format = format_of_options(options);
  const Scheme& scheme = scheme_of(format);
  out.key("quantization_config").begin_object();
  out.key("quant_method").value("compressed-tensors").key("format").value(scheme.layout);
  out.key("quantization_status").value("compressed");
  out.key("kv_cache_scheme").value(nullptr).key("global_compression_ratio").value(nullptr);
  out.key("ignore").begin_array();
  for (const std::string& module : ignored_modules(model, options)) out.value(module);
  out.end_array();
  out.key("config_groups").begin_object().key("group_0").begin_object();
  out.key("targets").begin_array().value("Linear").end_array();
  out.key("weights");
  write_weights(out, format, scheme);
  out.key("input_activations").value(nullptr).key("output_activations").value(nullptr);
  out.key("format").value(scheme.layout);
  out.end_object().end_object().end_object();
}

}  // namespace

StateDict compressed_weights(nn::LanguageModel& model, const WeightFormatOptions& options) {
  const WeightFormat& format = format_of_options(options);
  scheme_of(format);
  const NoGrad no_grad;
  StateDict tensors = to_huggingface(model);
  for (const LinearTarget& one : formatted_targets(model, options)) {
    if (one.part.transposed)
      fail(compressor, {.argument = one.module,
                        .expected = "a layer that transformers has as Linear",
                        .found = "a Conv1D of " + std::string(family_of(model.config()).type),
                        .hint = "this family goes into GGUF files"});
    const auto weight = tensors.extract(one.part.file_name);
    add_compressed(format, one.module, weight.mapped(), tensors);
  }
  if (options.head) {
    const auto weight = tensors.extract(std::string(family_of(model.config()).head));
    if (weight.empty())
      fail(compressor, {.argument = "head",
                        .expected = "a head with a weight of its own",
                        .found = "one that shares the token embedding's"});
    add_compressed(format, head_module(model), weight.mapped(), tensors);
  }
  return tensors;
}

void write_compressed_config(const Path& path, nn::LanguageModel& model,
                             const WeightFormatOptions& options, DType dtype) {
  write_config_and(path, model.config(), dtype,
                   [&](json::Writer& out) { write_quantization(out, model, options); });
}

}  // namespace binade::io
