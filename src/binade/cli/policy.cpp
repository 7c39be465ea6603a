#include "binade/amp/policy.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "binade/amp/autocast.h"
#include "binade/amp/trace.h"
#include "binade/cli/commands.h"
#include "binade/nn/language_model.h"
#include "binade/ops/create.h"

namespace binade::cli {
namespace {

// One training step of a very small GPT, op by op.
std::string traced_step() {
  nn::GPT model({.layers = 1, .width = 32, .heads = 2, .vocab = 64, .context = 16});
  const Tensor tokens = randint(0, 64, {2, 16}, {.seed = 1, .stream = 0});
  const Tensor targets = randint(0, 64, {2, 16}, {.seed = 1, .stream = 1});
  return amp::trace_text(amp::explain([&] {
    Tensor loss;
    {
      const amp::Autocast cast(DType::bf16);
      loss = model.loss(tokens, targets);
    }
    loss.backward();
  }));
}

}  // namespace

void add_policy(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("policy", "Print which op runs in which precision under autocast");
  auto json = std::make_shared<bool>(false), trace = std::make_shared<bool>(false);
  auto* as_json = command->add_flag("--json", *json, "Print JSON instead of text");
  command
      ->add_flag("--trace", *trace,
                 "Run one step of a small GPT in bf16 and print each op and cast")
      ->excludes(as_json);
  command->callback([json, trace] {
    fmt::print("{}", *trace ? traced_step() : *json ? amp::policy_json() : amp::policy_text());
  });
}

}  // namespace binade::cli
