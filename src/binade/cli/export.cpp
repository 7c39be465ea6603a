#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/cli/weight_formats.h"
#include "binade/data/tokenizer_json/huggingface_files.h"
#include "binade/data/tokenizer_json/to_gguf.h"
#include "binade/io/convert_model.h"
#include "binade/io/gguf/file.h"
#include "binade/io/gguf/save.h"
#include "binade/io/gguf/save_adapter.h"
#include "binade/io/gguf/writer.h"
#include "binade/io/lora.h"
#include "binade/train/export_weights.h"

namespace binade::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* compressed_tensors = "compressed-tensors";

struct ExportArguments {
  std::string from, to, dtype, format = "auto";
  io::WeightFormatOptions weights = {};  // its format may be another type of GGUF, too
  bool force = false, adapter = false;

  bool to_gguf() const { return format == "gguf" || (format == "auto" && to.ends_with(".gguf")); }
};

[[noreturn]] void refuse_export(const std::string& argument, const std::string& expected,
                                const std::string& found) {
  fail("export", {.argument = argument, .expected = expected, .found = found});
}

void export_adapter(const ExportArguments& arguments, const fs::path& from,
                    const io::ConvertOptions& options) {
  const io::Converted done = io::convert_adapter(from, arguments.to, options);
  fmt::print("{}: an adapter of {} parameters of {} in {}\n", from.string(),
             grouped(done.parameters), name(done.dtype), arguments.to);
}

// What --type says, or what the run was trained for.
io::WeightFormatOptions compressed_weights(const ExportArguments& arguments, const fs::path& from) {
  const std::string expected = "--type int4-g128, nvfp4 or fp8-block";
  const io::WeightFormatOptions& given = arguments.weights;
  if (!given.format.empty()) {
    const formats::WeightFormat* format = formats::find_weight_format(given.format);
    if (format == nullptr || format->groups == nullptr)
      refuse_export("--format compressed-tensors", expected, "--type " + given.format);
    return given;
  }
  const io::WeightFormatOptions trained = trained_weight_format(from);
  if (trained.format.empty())
    refuse_export("--format compressed-tensors", expected,
                  "none, and " + from.string() + " was not trained with --qat");
  return trained;
}

// What --type says, or what the run was trained for if GGUF has it, or f32.
std::string gguf_type(const ExportArguments& arguments, const io::WeightFormatOptions& trained) {
  if (arguments.weights.head || !arguments.weights.exclude.empty())
    refuse_export("--head and --exclude", "--format compressed-tensors", "--format gguf");
  const std::string& given = arguments.weights.format;
  if (!given.empty()) {
    const io::gguf::TensorType* type = io::gguf::find_tensor_type(given);
    if (type == nullptr || !io::gguf::is_written(*type))
      refuse_export("--format gguf", "--type f32, f16, bf16, q8_0, q4_0, q4_k, q6_k or mxfp4",
                    "--type " + given);
    return given;
  }
  const auto* format = formats::find_weight_format(trained.format);
  return format != nullptr && format->block != nullptr ? std::string(format->name) : "f32";
}

void export_folder(const ExportArguments& arguments, const fs::path& from) {
  io::ConvertOptions options{.force = arguments.force};
  if (arguments.format == compressed_tensors) {
    if (arguments.adapter)
      refuse_export("--adapter", "--format huggingface: adapters are PEFT's files",
                    arguments.format);
    options.weights = compressed_weights(arguments, from);
  } else if (arguments.weights != io::WeightFormatOptions()) {
    refuse_export(
        arguments.weights.format.empty() ? "--head and --exclude" : "--type",
        "--format gguf or compressed-tensors, or TO with the extension .gguf; --dtype for "
        "other folders",
        arguments.to);
  }
  if (!arguments.dtype.empty()) options.dtype = parse_dtype(arguments.dtype);
  if (arguments.adapter) return export_adapter(arguments, from, options);
  options.complete = [&, vocab =
                             io::read_config(io::config_file(from)).vocab](const fs::path& folder) {
    if (io::gguf::is_gguf(from)) data::add_tokenizer_of(from, folder);
    data::add_huggingface_files(folder, vocab);
  };
  const io::Converted done = io::convert_pretrained(from, arguments.to, options);
  const std::string also = options.weights.format.empty() ? "" : options.weights.format + " and ";
  fmt::print("{}: {} parameters of {}{} in {}\n", from.string(), grouped(done.parameters), also,
             name(done.dtype), arguments.to);
}

// A file that llama.cpp applies to the exported base.
void export_gguf_adapter(const ExportArguments& arguments, const fs::path& from) {
  if (!io::is_adapter(from))
    refuse_export(from.string(), "a folder with adapter_config.json, as a run with --lora-rank has",
                  "a model without an adapter");
  const std::string given = arguments.weights.format.empty() ? "f32" : arguments.weights.format;
  if (given != "f32" && given != "f16" && given != "bf16")
    refuse_export("--adapter", "--type f32, f16 or bf16", "--type " + given);
  if (arguments.weights.head || !arguments.weights.exclude.empty())
    refuse_export("--head and --exclude", "--format compressed-tensors", "--format gguf");
  const io::gguf::SavedAdapter saved =
      io::gguf::save_adapter(from, arguments.to, *io::gguf::find_tensor_type(given));
  fmt::print("{}: an adapter of {} parameters of {}, alpha {:g}, in {}\n", from.string(),
             grouped(saved.parameters), given, saved.alpha, arguments.to);
}

void export_gguf(const ExportArguments& arguments, const fs::path& from) {
  if (!arguments.dtype.empty()) refuse_export("--dtype", "--type for GGUF", arguments.dtype);
  const fs::path to = arguments.to;
  std::error_code error;
  if (to.extension() != ".gguf" || fs::is_directory(to, error))
    refuse_export("TO", "the name of a file with the extension .gguf", arguments.to);
  if (fs::exists(to, error) && !arguments.force)
    fail("export", {.argument = arguments.to,
                    .expected = "no file of that name",
                    .found = "one",
                    .hint = "add --force to replace it"});
  if (arguments.adapter) return export_gguf_adapter(arguments, from);
  // Refused before the weights are read.
  const nn::LanguageModelConfig config = io::read_config(io::config_file(from));
  io::gguf::check_exportable(config);
  const io::WeightFormatOptions trained = trained_weight_format(from);
  const std::string type = gguf_type(arguments, trained);
  const fs::path tokenizer =
      io::is_adapter(from) && !data::find_tokenizer(from) ? io::adapter_base(from) : from;
  const io::gguf::SaveOptions options{
      .type = io::gguf::find_tensor_type(type),
      .trained = type == trained.format ? trained : io::WeightFormatOptions(),
      .add_tokenizer = [&](io::gguf::Writer& out) {
        data::add_gguf_tokenizer(out, tokenizer, config);
      }};
  const auto model = train::load_exact(from);
  io::gguf::save(*model, to, options);
  fmt::print("{}: {} parameters of {} in {}\n", from.string(), grouped(model->parameter_count()),
             type, arguments.to);
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "export", "Write a trained model as a folder that transformers loads, or as a GGUF file");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("FROM", arguments->from, "A checkpoint, or the folder of a run or of a model")
      ->required();
  command->add_option("TO", arguments->to, "Folder or file to write")->required();
  command
      ->add_option(
          "--format", arguments->format,
          "huggingface: a folder of weights of one type; compressed-tensors: a folder with "
          "linear layers in 4 or 8 bits, for vLLM and transformers; gguf: a file for "
          "llama.cpp; auto: gguf if TO ends in .gguf, else huggingface")
      ->check(one_of({"auto", "huggingface", compressed_tensors, "gguf"}))
      ->capture_default_str();
  command->add_option("--dtype", arguments->dtype, "Type of a folder's weights; default: unchanged")
      ->check(one_of({"f32", "bf16", "f16"}));
  command
      ->add_option("--type", arguments->weights.format,
                   "Type of a GGUF file's matrices or format of a compressed-tensors folder's; "
                   "default: that of --qat, else f32")
      ->check(one_of({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k", "mxfp4", "int4-g128",
                      "nvfp4", "fp8-block"}));
  add_weight_parts(*command, arguments->weights);
  command->add_flag(
      "--adapter", arguments->adapter,
      "Write the adapter of a LoRA run instead of merging it: in PEFT's files, or as a "
      "GGUF file that llama.cpp applies to the base's");
  command->add_flag("--force", arguments->force, "Replace an existing model in TO");
  command->callback([arguments] {
    const fs::path from = chosen_model(arguments->from, "export");
    if (arguments->to_gguf()) {
      export_gguf(*arguments, from);
    } else {
      export_folder(*arguments, from);
    }
  });
}

}  // namespace binade::cli
