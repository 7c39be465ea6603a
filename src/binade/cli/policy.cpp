#include "binade/amp/policy.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "binade/amp/trace.h"
#include "binade/base/error.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/train/memory/forecast.h"

namespace binade::cli {
namespace {

struct PolicyArguments : ConfigArguments {
  bool json = false, trace = false;

  bool names_a_model() const {
    const auto sets_sizes = [](const auto& option) {
      return option.first == "preset" || option.first == "init-from";
    };
    return !file.empty() || std::any_of(options->begin(), options->end(), sets_sizes);
  }
};

// A model whose trace fits a screen or two.
const GivenOptions small_model = {{"layers", "1"},   {"width", "32"}, {"heads", "2"},
                                  {"context", "16"}, {"batch", "2"},  {"precision", "bf16"}};

// One training step of the configuration, op by op, on the meta device: nothing is computed, so
// that a model of any size is traced at once.
std::string traced_step(const train::Config& config) {
  train::MetaRun run(config);
  return amp::trace_text(amp::explain([&] { run.step(); }));
}

}  // namespace

void add_policy(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("policy", "Print which op runs in which precision under autocast");
  auto arguments = std::make_shared<PolicyArguments>();
  auto* as_json = command->add_flag("--json", arguments->json, "Print JSON instead of text");
  command
      ->add_flag("--trace", arguments->trace,
                 "Print each op and cast of a training step, forward and backward; default: of a "
                 "small model in bf16")
      ->excludes(as_json);
  add_configuration(*command, *arguments);
  command->callback([arguments] {
    if (arguments->trace) {
      const train::Config config =
          configuration(*arguments, arguments->names_a_model() ? GivenOptions{} : small_model);
      fmt::print("{}", traced_step(config));
      return;
    }
    configuration(*arguments);  // refuses unknown options
    if (!arguments->file.empty() || !arguments->options->empty())
      fail("policy", {.argument = "a configuration",
                      .expected = "--trace",
                      .found = "none",
                      .hint = "'binade policy --trace' runs a step of it; the table is the same "
                              "for every configuration"});
    fmt::print("{}", arguments->json ? amp::policy_json() : amp::policy_text());
  });
}

}  // namespace binade::cli
