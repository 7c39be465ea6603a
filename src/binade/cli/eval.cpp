#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/base/json.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/cli/weight_formats.h"
#include "binade/io/safetensors.h"
#include "binade/train/evaluate.h"

namespace binade::cli {
namespace {

constexpr int64_t max_stride = 1 << 20;

struct EvalArguments {
  std::string folder;
  std::string data;
  std::string logits;
  int64_t batch = 8;
  int64_t stride = 0;
  bool json = false;
  std::shared_ptr<ModelArguments> model = std::make_shared<ModelArguments>();
  std::shared_ptr<io::WeightFormatOptions> weights = std::make_shared<io::WeightFormatOptions>();
};

// False if some tokens were not predicted: the bytes of their text are not known.
bool has_bits_per_byte(const train::Evaluation& result, const train::EvaluationData& data) {
  return data.bytes && result.tokens == data.tokens.size() - 1;
}

void print_text(const train::Evaluation& result, const train::EvaluationData& data) {
  const bool are_bytes = has_bits_per_byte(result, data) && *data.bytes == result.tokens;
  fmt::print("{} {}, {}\nloss            {:.6f} nats per {}\nperplexity      {:.4f}\n",
             result.tokens, are_bytes ? "bytes" : "tokens", data.source, result.loss,
             are_bytes ? "byte" : "token", result.perplexity());
  if (has_bits_per_byte(result, data))
    fmt::print("bits per byte   {:.6f}\n", result.bits_per_byte(*data.bytes));
}

void print_json(const train::Evaluation& result, const train::EvaluationData& data,
                const std::string& model) {
  json::Writer out;
  out.begin_object().key("model").value(model).key("data").value(data.source);
  out.key("tokens").value(result.tokens).key("loss").value(result.loss);
  out.key("perplexity").value(result.perplexity());
  if (has_bits_per_byte(result, data))
    out.key("bits_per_byte").value(result.bits_per_byte(*data.bytes));
  fmt::print("{}\n", out.end_object().text());
}

void run(const EvalArguments& arguments) {
  const auto folder = chosen_model(arguments.folder, "eval");
  const auto model = arguments.model->load(folder, "eval");
  io::set_weight_format(*model, *arguments.weights);
  const auto data = train::evaluation_data(folder, arguments.data, model->config());
  const train::InferenceScope scope = arguments.model->scope();
  const train::Evaluation result =
      arguments.stride > 0
          ? train::evaluate_windows(*model, data.tokens, arguments.stride, arguments.batch)
          : train::evaluate(*model, data.tokens, arguments.batch);
  if (!arguments.logits.empty()) {
    io::save_safetensors(arguments.logits,
                         {{"logits", train::all_logits(*model, data.tokens, arguments.batch)}});
  }
  if (arguments.json) {
    print_json(result, data, folder.string());
  } else {
    print_text(result, data);
  }
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("eval", "Measure loss, perplexity and bits per byte of a model on a text");
  auto arguments = std::make_shared<EvalArguments>();
  command->add_option("FOLDER", arguments->folder, "A model, a checkpoint, or the folder of a run")
      ->required();
  command->add_option(
      "--data", arguments->data,
      "A text, a folder of texts, a token file (.bin), examples (.jsonl), or builtin; "
      "default: the validation part of the run's own data");
  command->add_option("--batch", arguments->batch, "Sequences per batch")
      ->transform(whole_number())
      ->capture_default_str();
  command
      ->add_option(
          "--stride", arguments->stride,
          "Predict from sliding windows that begin every N tokens, as transformers' guide to "
          "perplexity does; default: consecutive windows")
      ->transform(whole_number(1, max_stride));
  add_model_options(*command, arguments->model);
  add_weight_format(*command, "--as",
                    "Round the weights of the blocks' linear layers to the values that a file in "
                    "this format holds",
                    arguments->weights);
  command->add_option("--logits", arguments->logits,
                      "Also write the logits of every position to this safetensors file");
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
