#pragma once

#include <CLI/App.hpp>

namespace binade::cli {

// Exit statuses.
inline constexpr int different = 1;  // two runs, or a run and its record, are not the same
inline constexpr int bad_input = 2;
inline constexpr int failed_training = 3;  // it only skipped its steps, or diverged

// One file per command. Each adds a subcommand and its callback to `app`. On bad input a callback
// throws a binade::Error, which main prints as one message before it exits with bad_input.
void add_at(CLI::App& app);
void add_bench(CLI::App& app);
void add_compare(CLI::App& app);
void add_completions(CLI::App& app);
void add_diff(CLI::App& app);
void add_eval(CLI::App& app);
void add_export(CLI::App& app);
void add_formats(CLI::App& app);
void add_generate(CLI::App& app);
void add_help(CLI::App& app);
void add_import(CLI::App& app);
void add_info(CLI::App& app);
void add_inspect(CLI::App& app);
void add_lab(CLI::App& app);
void add_launch(CLI::App& app);
void add_man(CLI::App& app);
void add_plan(CLI::App& app);
void add_policy(CLI::App& app);
void add_report(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_serve(CLI::App& app);
void add_sweep(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_train(CLI::App& app);
void add_version(CLI::App& app);

// Throws a CLI::ExtrasError about a command that `app` does not have, naming the one
// that was probably meant.
[[noreturn]] void refuse_command(const CLI::App& app, const std::string& given);

}  // namespace binade::cli
