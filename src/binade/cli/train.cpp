#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <csignal>
#include <memory>
#include <system_error>

#include "binade/base/json.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/lab/doctor.h"
#include "binade/nn/language_model.h"
#include "binade/train/config/component_options.h"
#include "binade/train/forecast.h"
#include "binade/train/loop.h"

namespace binade::cli {
namespace {

struct RunArguments : ConfigArguments {
  bool quiet = false;
  bool json = false;
};

void describe_run(const train::Config& config, bool json) {
  const nn::LanguageModel model(train::model_config(config), {Device::meta(), DType::f32});
  const memory::Statistics memory = train::forecast_memory(config);
  const int64_t tokens = config.accumulate * config.batch * config.context;
  if (json) {
    json::Writer out;
    out.begin_object().key("parameters").value(model.parameter_count());
    out.key("tokens_per_step").value(tokens).key("tokens").value(tokens * config.steps);
    out.key("memory_at_peak").begin_object();
    for (int i = 0; i < memory::category_count; ++i) {
      out.key(memory::name(static_cast<memory::Category>(i)))
          .value(memory.at_peak[static_cast<size_t>(i)]);
    }
    fmt::print("{}\n", out.end_object().key("memory").value(memory.peak).end_object().text());
    return;
  }
  fmt::print("{}\n# {} parameters; {} tokens per step, {} in all\n# memory at its peak:\n",
             train::to_toml(config), model.parameter_count(), tokens, tokens * config.steps);
  for (int i = 0; i < memory::category_count; ++i) {
    const int64_t bytes = memory.at_peak[static_cast<size_t>(i)];
    fmt::print("#   {:<12} {:>15} B  {:>8}\n", memory::name(static_cast<memory::Category>(i)),
               bytes, train::bytes_text(bytes));
  }
  fmt::print("#   {:<12} {:>15} B  {:>8}\n# Nothing was trained (--dry-run).\n", "total",
             memory.peak, train::bytes_text(memory.peak));
}

void print_json(const train::RunResult& result) {
  json::Writer out;
  out.begin_object()
      .key("folder")
      .value(result.folder.string())
      .key("checkpoint")
      .value(result.checkpoint.string());
  out.key("report")
      .value(result.report.string())
      .key("steps")
      .value(result.steps)
      .key("interrupted")
      .value(result.interrupted);
  if (std::isfinite(result.last_validation_loss.value_or(NAN)))
    out.key("validation_loss").value(*result.last_validation_loss);
  out.key("seconds").value(result.seconds).key("sample").value(result.sample).end_object();
  fmt::print("{}\n", out.text());
}

void print_result(const train::RunResult& result) {
  if (result.interrupted) {
    fmt::print("stopped after step {}; continue with:\n  binade train --resume --out {}\n",
               result.steps, result.folder.string());
  }
  if (!result.sample.empty()) fmt::print("\na sample of its text:\n{}\n\n", result.sample);
  if (result.first_validation_loss && result.last_validation_loss) {
    fmt::print("validation loss {:.4f} -> {:.4f} in {}\n", *result.first_validation_loss,
               *result.last_validation_loss, train::time_text(result.seconds));
  }
  fmt::print("report: {}\n", result.report.string());
}

// As a shell reports a signal, and as timeout(1) reports its limit.
int exit_code(const train::RunResult& result) {
  return result.signal != 0 ? 128 + result.signal : 124;
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "train", "Train a language model; without arguments a small one on Binade's own sources");
  auto arguments = std::make_shared<RunArguments>();
  auto* quiet = command->add_flag("--quiet", arguments->quiet, "Print only errors");
  command->add_flag("--json", arguments->json, "Print lines of JSON")->excludes(quiet);
  add_configuration(*command, *arguments);
  command->callback([command, arguments] {
    const train::Config config = configuration(*command, *arguments);
    if (config.dry_run) return describe_run(config, arguments->json);
    using Mode = train::Progress::Mode;
    const Mode mode = arguments->json ? Mode::json : arguments->quiet ? Mode::quiet : Mode::normal;
    // A reader that has gone away must not decide the exit code.
    std::signal(SIGPIPE, SIG_IGN);
    lab::Doctor doctor;
    const train::RunResult result = train::run(config, mode, &doctor);
    try {
      if (mode == Mode::json) print_json(result);
      if (mode == Mode::normal) print_result(result);
    } catch (const std::system_error&) {  // main() reports that the output could not be written
    }
    if (result.interrupted) throw CLI::RuntimeError(exit_code(result));
  });
}

}  // namespace binade::cli
