#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/terminal.h"
#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/launched.h"
#include "binade/cli/on_ranks.h"
#include "binade/data/chat/examples.h"
#include "binade/lab/baselines.h"
#include "binade/lab/doctor.h"
#include "binade/nn/language_model.h"
#include "binade/ranks/communicator.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/warnings.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/report/run_comparison.h"
#include "binade/train/report/run_summary.h"
#include "binade/train/run/check.h"
#include "binade/train/run/loop.h"
#include "binade/train/run/signals.h"

namespace binade::cli {
namespace {

struct RunArguments : ConfigArguments {
  bool quiet = false;
  bool json = false;
  bool baselines = false;
};

// With the activations that the run would keep, and a line about the choice; fails as the run
// would.
std::string choose_activations(train::Config& config) {
  if (config.train.activations) return {};
  const train::Arrangement chosen = train::arrange(config);
  config.train.activations = chosen.activations;
  return "# " + train::describe(chosen, config) + "\n";
}

void describe_run(const train::Config& given, bool json) {
  train::Config config = given;
  const std::string choice = choose_activations(config);
  const auto model = train::make_model(config, {Device::meta(), DType::f32});
  const int64_t parameters = model->parameter_count(), trained = train::trained_parameters(*model);
  const memory::Statistics memory = train::forecast_memory(config);
  const int64_t tokens = train::step_tokens(config);
  if (json) {
    json::Writer out;
    out.begin_object().key("parameters").value(parameters);
    out.key("trained_parameters").value(trained);
    out.key("tokens_per_step").value(tokens).key("tokens").value(tokens * config.train.steps);
    out.key("memory_at_peak").begin_object();
    for (int i = 0; i < memory::category_count; ++i) {
      out.key(memory::name(static_cast<memory::Category>(i)))
          .value(memory.at_peak[static_cast<size_t>(i)]);
    }
    fmt::print("{}\n", out.end_object().key("memory").value(memory.peak).end_object().text());
    return;
  }
  fmt::print("{}\n# {} parameters{}; {}{} tokens per step, {} in all\n# memory of a step:\n",
             train::to_toml(given), grouped(parameters),
             trained < parameters ? fmt::format(", {} of them trained", grouped(trained)) : "",
             data::has_examples(config.data.source) ? "at most " : "", grouped(tokens),
             grouped(tokens * config.train.steps));
  for (int i = 0; i < memory::category_count; ++i) {
    const int64_t bytes = memory.at_peak[static_cast<size_t>(i)];
    fmt::print("#   {:<12} {:>18} B  {:>8}\n", memory::name(static_cast<memory::Category>(i)),
               grouped(bytes), train::bytes_text(bytes));
  }
  fmt::print("#   {:<12} {:>18} B  {:>8}\n{}# Nothing was trained (--dry-run).\n", "total",
             grouped(memory.peak), train::bytes_text(memory.peak), choice);
}

// The last validation losses of a run's baselines, as far as there are any.
void write_baselines(json::Writer& out, const train::RunSummary& run) {
  if (run.baselines.empty()) return;
  out.key("baselines").begin_object();
  for (const train::RunSummary& one : run.baselines) {
    double loss = NAN;
    for (const train::Record& record : one.records) loss = record.validation_loss.value_or(loss);
    out.key(one.name);
    std::isfinite(loss) ? out.value(loss) : out.value(nullptr);
  }
  out.end_object();
}

void print_json(const train::RunResult& result, const train::Config& config) {
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
  out.key("stopped_early").value(result.stopped_early);
  out.key("finished_before").value(result.finished_before);
  if (!result.failure.empty()) out.key("failure").value(result.failure);
  if (!result.difference.empty()) out.key("difference").value(result.difference);
  if (!result.best.empty() && result.best_validation_loss) {
    out.key("best").value(result.best.string()).key("best_step").value(result.best_step);
    out.key("best_validation_loss").value(*result.best_validation_loss);
  }
  if (std::isfinite(result.last_validation_loss.value_or(NAN)))
    out.key("validation_loss").value(*result.last_validation_loss);
  if (const auto& numbers = result.last_validation_preferences;
      numbers && std::isfinite(numbers->margin())) {
    out.key("validation_accuracy").value(numbers->accuracy);
    out.key("validation_reward_margin").value(numbers->margin());
  }
  out.key("parameters").value(result.parameters);
  out.key("trained_parameters").value(result.trained_parameters);
  out.key("seconds").value(result.seconds).key("sample").value(result.sample);
  if (config.precision.automatic && !result.interrupted)
    write_baselines(out, train::read_run(result.folder));
  fmt::print("{}\n", out.end_object().text());
}

// A word of shell: as it is, or in quotes if it has other than plain characters.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("/._-+=:,", c) != nullptr;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

void print_loss(const train::RunResult& result) {
  if (result.validations == 0) return;
  const bool color = terminal::has_color(stdout);
  const double loss = *result.last_validation_loss;
  const std::string change =
      result.validations > 1 ? fmt::format("{:.4f} -> {:.4f}", *result.first_validation_loss, loss)
                             : fmt::format("{:.4f}", loss);
  const bool is_per_byte = result.loss_unit == "nats per byte";
  fmt::print("validation loss {} {}{} in {}\n",
             terminal::styled(change, terminal::Style::bold, color), result.loss_unit,
             is_per_byte ? fmt::format(" ({:.2f} bits)", loss / M_LN2) : "",
             train::time_text(result.elapsed));
  if (const auto& numbers = result.last_validation_preferences)
    fmt::print("validation accuracy {:.1f}%, reward margin {:.3f}\n", 100 * numbers->accuracy,
               numbers->margin());
}

// Prints the baselines of a run with --auto-precision, or how to train them.
void print_baselines(const train::RunSummary& run, const std::string& program,
                     const std::string& folder) {
  if (run.baselines.empty())
    fmt::print("baselines:   {} train --resume --baselines --out {}   # bf16 and plain fp8\n",
               program, folder);
  else
    fmt::print("\nwith the same seed, data and steps:\n{}\n", train::baselines_text(run));
}

// The command that trains as this process was started: "binade launch -n 2 train" in a rank of it.
std::string train_command(const std::string& program, int ranks) {
  return is_launched() ? fmt::format("{} launch -n {} train", program, ranks) : program + " train";
}

// Says how to train on after a run was resumed without a step left.
void print_finished(const train::RunResult& result, const train::Config& config,
                    const std::string& command, const std::string& folder) {
  fmt::print("the run is finished, after step {}{}; nothing has changed. To train on:\n",
             grouped(result.steps),
             result.stopped_early ? ": the validation loss had stopped falling" : "");
  fmt::print("  {} --resume {} --out {}\n", command,
             result.stopped_early
                 ? std::string("--patience 0")
                 : fmt::format("--steps {}", 2 * std::max(config.train.steps, result.steps)),
             folder);
}

void print_result(const train::RunResult& result, const train::Config& config,
                  const std::string& program, int ranks, bool baselines) {
  const std::string command = train_command(program, ranks);
  const std::string folder = shell_word(result.folder.string());
  if (result.finished_before) print_finished(result, config, command, folder);
  if (result.interrupted) {
    fmt::print("stopped {}; continue with:\n  {} --resume{} --out {}\n",
               result.steps < config.train.steps ? fmt::format("after step {}", result.steps)
                                                 : "in a baseline",
               command, baselines ? " --baselines" : "", folder);
  }
  if (result.stopped_early && !result.finished_before)
    fmt::print("stopped after step {}: the validation loss has stopped falling\n", result.steps);
  if (!result.difference.empty())
    fmt::print("{} {}\n",
               terminal::styled("stopped at a difference:", terminal::Style::red,
                                terminal::has_color(stdout)),
               result.difference);
  if (!result.failure.empty())
    fmt::print(
        "{} {}\n",
        terminal::styled("the run has failed:", terminal::Style::red, terminal::has_color(stdout)),
        result.failure);
  if (!result.sample.empty()) fmt::print("\na sample of its text:\n{}\n\n", result.sample);
  print_loss(result);
  if (!result.best.empty() && result.best_validation_loss)
    fmt::print("best:        {:.4f} at step {}, in {}\n", *result.best_validation_loss,
               result.best_step, result.best.string());
  if (config.precision.automatic && !result.interrupted)
    print_baselines(train::read_run(result.folder), program, folder);
  if (!config.model.init_from.empty())
    fmt::print("trained:     {}\n",
               train::parameters_text(result.trained_parameters, result.parameters));
  fmt::print("report:      {}\n", result.report.string());
  if (result.interrupted || !result.failure.empty() || !result.difference.empty()) return;
  fmt::print("more text:   {} generate {}\n", program, folder);
  fmt::print("export:      {} export {} model-hf   # for transformers\n", program, folder);
}

// As a shell reports a signal, and as timeout(1) reports its limit.
int exit_code(const train::RunResult& result) {
  return result.signal != 0 ? 128 + result.signal : 124;
}

void check_baselines(const train::Config& config, int ranks) {
  if (!config.precision.automatic)
    fail("train", {.argument = "--baselines",
                   .expected = "--auto-precision, whose runs are compared with bf16 and plain fp8",
                   .found = "a run without it"});
  if (ranks > 1)
    fail("train", {.argument = "--baselines",
                   .expected = "one process",
                   .found = fmt::format("{} ranks", ranks)});
}

// Trains the baselines of a complete run. Returns one that was interrupted.
std::optional<train::RunResult> train_baselines(const train::Config& config,
                                                const train::RunResult& run,
                                                train::Progress::Mode mode) {
  using Mode = train::Progress::Mode;
  const bool quiet = mode != Mode::normal;
  return lab::train_baselines(config, run, quiet ? Mode::quiet : mode,
                              [quiet](const std::string& line) {
                                if (!quiet) fmt::print("\n{}\n", line);
                              });
}

void train_on(CLI::App& command, const RunArguments& arguments,
              const std::shared_ptr<ranks::Communicator>& ranks) {
  std::vector<std::string> warnings;
  const train::Config config = configuration(arguments, {}, &warnings);
  // A reader that has gone away must not decide the exit code.
  std::signal(SIGPIPE, SIG_IGN);
  if (arguments.baselines) check_baselines(config, ranks->size());
  using Mode = train::Progress::Mode;
  if (ranks->rank() != 0) {
    if (!config.run.dry_run) train::run(config, Mode::quiet, nullptr, ranks);
    return;
  }
  print_warnings(warnings);
  print_warnings(train::warnings(config));
  if (config.run.dry_run) {
    train::check_run(config, ranks->size());
    return describe_run(config, arguments.json);
  }
  const Mode mode = arguments.json ? Mode::json : arguments.quiet ? Mode::quiet : Mode::normal;
  lab::Doctor doctor;
  train::RunResult result = train::run(config, mode, &doctor, ranks);
  if (arguments.baselines && !result.interrupted) {
    if (const auto stopped = train_baselines(config, result, mode)) {
      result.interrupted = true;
      result.signal = stopped->signal;
    }
  }
  try {
    if (mode == Mode::json) print_json(result, config);
    if (mode == Mode::normal)
      print_result(result, config, command.get_parent()->get_name(), ranks->size(),
                   arguments.baselines);
  } catch (const std::system_error&) {  // main() reports that the output could not be written
  }
  if (!result.difference.empty()) throw CLI::RuntimeError(different);
  if (result.interrupted) throw CLI::RuntimeError(exit_code(result));
  if (!result.failure.empty()) throw CLI::RuntimeError(failed_training);
}

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "train", "Train a language model; without arguments a small one on Binade's own sources");
  auto arguments = std::make_shared<RunArguments>();
  auto* quiet = command->add_flag("--quiet", arguments->quiet, "Print only errors");
  command->add_flag("--json", arguments->json, "Print lines of JSON")->excludes(quiet);
  command->add_flag("--baselines", arguments->baselines,
                    "With --auto-precision: then train bf16 and plain fp8 alike, to compare");
  command->add_option("--cure", arguments->cure,
                      "Start the run in this folder anew, with the cure that the doctor found");
  add_configuration(*command, *arguments);
  command->callback([command, arguments] {
    train::keep_save_requests();
    on_ranks([&](const auto& ranks) { train_on(*command, *arguments, ranks); });
  });
}

}  // namespace binade::cli
