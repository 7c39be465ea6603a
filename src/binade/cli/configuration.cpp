#include "binade/cli/configuration.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>

#include "binade/amp/recipe/text.h"
#include "binade/base/error.h"
#include "binade/cli/command_line.h"
#include "binade/cli/values.h"
#include "binade/io/huggingface.h"
#include "binade/io/model_folder.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/cured.h"
#include "binade/train/config/keys.h"
#include "binade/train/config/setting.h"
#include "binade/train/run/folder.h"
#include "binade/train/run/resume_check.h"
#include "binade/train/run/resume_settings.h"

namespace binade::cli {
namespace {

// A word in place of a configuration: a run's folder, or one that no option has taken.
void refuse_other(const std::string& path) {
  std::error_code error;
  if (!path.empty() && !path.ends_with(".toml") && !std::filesystem::exists(path, error))
    fail("config", {.argument = path,
                    .expected = "a readable file",
                    .found = "none of that name",
                    .hint = "a word that belongs to no option is a configuration file (TOML)"});
  if (!std::filesystem::is_directory(path, error)) return;
  const bool is_run = std::filesystem::exists(std::filesystem::path(path) / "config.toml", error);
  fail("config", {.argument = path,
                  .expected = "a TOML file",
                  .found = is_run ? "the folder of a run" : "a folder",
                  .hint = is_run ? fmt::format("train --resume --out {} continues it", path) : ""});
}

// Whether options tell what to train, not only where and how to resume it.
bool describe_run(const GivenOptions& options) {
  return std::any_of(options.begin(), options.end(), [](const auto& option) {
    const std::span<const train::Key> keys = train::keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const train::Key& one) {
      return train::option_name(one) == "--" + option.first;
    });
    return key != keys.end() && key->saved && key->name != "out";
  });
}

// Whether a run's folder has its settings, which are enough to resume it. Not if a run that has
// saved nothing yet is started by its options.
bool has_saved_run(const std::string& out, const GivenOptions& options) {
  std::error_code error;
  if (std::filesystem::is_directory(out, error)) {
    const io::Path folder(io::Directory(out, "train"));
    train::check_run_entries(folder);
    if ((folder / "config.toml").exists() || !io::list_step_folders(folder / "checkpoints").empty())
      return true;
  }
  if (describe_run(options)) return false;
  fail("train", {.argument = "--resume --out " + out,
                 .expected = "a run in that folder",
                 .found = "none",
                 .hint = "a run that was ended in its first seconds has saved nothing: add its "
                         "options, and --resume starts it"});
}

// The settings of a run, or of CONFIG, with what the doctor found to cure it, for a new run.
train::Config cured_settings(const ConfigArguments& arguments, train::Sources sources,
                             bool resume) {
  const io::Path run(io::Directory(arguments.cure, "train"));
  train::check_run_entries(run);
  const auto refuse = [&](std::string expected, std::string found, std::string hint) {
    fail("train", {.argument = "--cure " + arguments.cure,
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .hint = std::move(hint)});
  };
  if (resume)
    refuse("a new run", "--resume",
           "a cure changes what a run computes: it applies from the first step on");
  const io::Path cure = run / train::cure_file;
  if (!cure.exists())
    refuse(fmt::format("{} in the run's folder", train::cure_file), "none",
           "the doctor writes it when it has found a cure: doctor.txt says what it knows");
  if (sources.file.empty()) {
    sources.file = run / "config.toml";
    if (!sources.file.exists()) refuse("the folder of a run", "no config.toml in it", "");
    // The next free folder instead of the run's own, unless options name one.
    sources.options.insert(sources.options.begin(), {"out", ""});
  }
  return train::resolve_cured(sources, cure);
}

// The names of other programs that the options are accepted by.
std::string other_names_text(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = other_names_of(*option);
    if (!names.empty())
      text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", fmt::join(names, ", "),
                          option->get_name());
  }
  return "Other names that are taken, too: " + text + ".";
}

}  // namespace

Device available_device(const std::string& name) {
  const Device device = parse_device(name);
  train::check_device(device);
  return device;
}

void add_configuration(CLI::App& command, ConfigArguments& arguments) {
  command.add_option(
      "CONFIG", arguments.file,
      "TOML file with the same keys in sections, such as [train] steps = 1600; options "
      "override it");
  // CLI11's help leaves out options without a group.
  auto rare = std::make_shared<std::vector<std::pair<CLI::Option*, std::string>>>();
  for (const train::Key& key : train::keys()) {
    CLI::Option* option = add_key(command, key, train::unresolved(), arguments.options);
    if (train::is_common(key)) continue;
    rare->emplace_back(option, option->get_group());
    option->group("");
  }
  command.footer(fmt::format("{} more options, for the few who need them: {} --help-all",
                             rare->size(), full_name(command)));
  const auto show_all = [rare, &command] {
    for (const auto& [option, group] : *rare) option->group(group);
    command.footer(other_names_text(command));
    throw CLI::CallForHelp();
  };
  command.add_flag_callback(help_all, show_all, "Print this help with every option and exit");
}

train::Config configuration(const ConfigArguments& arguments, GivenOptions defaults,
                            std::vector<std::string>* warnings) {
  refuse_other(arguments.file);
  train::Sources sources{arguments.file, *arguments.options, std::move(defaults)};
  // The run's folder is enough to resume it.
  bool resume = false;
  std::string out;
  for (const auto& [name, text] : *arguments.options) {
    resume |= name == "resume";
    if (name == "out") out = text;
  }
  train::Config config;
  if (!arguments.cure.empty()) {
    config = cured_settings(arguments, std::move(sources), resume);
  } else if (resume && sources.file.empty() && !out.empty() &&
             has_saved_run(out, *arguments.options)) {
    train::ResumeSettings saved =
        train::saved_settings(io::Directory(out, "train"), *arguments.options);
    if (warnings != nullptr) *warnings = std::move(saved.warnings);
    config = std::move(saved.config);
  } else {
    config = train::resolve(sources);
  }
  train::check_allowed_names(config);
  return config;
}

std::filesystem::path chosen_model(const std::string& given, std::string_view command) {
  const io::ModelChoice choice = io::choose_model(given, command);
  print_warnings(choice.notes);
  return choice.folder;
}

Device ModelArguments::where() const {
  return device == "auto" ? train::device_of({}) : available_device(device);
}

std::unique_ptr<nn::LanguageModel> ModelArguments::load(const std::filesystem::path& folder,
                                                        std::string_view caller) const {
  auto model = io::load_pretrained(folder, {where(), DType::f32});
  train::load_scales(*model, folder, precision, caller);
  if (precision.depends_on_batch())
    print_warnings(
        {"the recipe takes one scale from all of a batch: results depend on the other "
         "texts in it"});
  return model;
}

void add_model_options(CLI::App& command, const std::shared_ptr<ModelArguments>& arguments) {
  command
      .add_option("--device", arguments->device,
                  "Device to run on: cpu, cuda, cuda:N, or auto: a GPU if there is one")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--precision",
          [arguments](const std::string& text) {
            arguments->precision.matmul = train::parse_precision(text);
          },
          "Matmul precision; fp8: by --recipe")
      ->check(one_of({"fp32", "tf32", "bf16", "fp16", "fp8"}))
      ->default_str(std::string(train::name(arguments->precision.matmul)));
  command.add_option_function<std::string>(
      "--recipe",
      [arguments, &command](const std::string& text) {
        if (command.count("--precision") > 0 && !arguments->precision.is_quantized())
          throw CLI::ValidationError(
              "--recipe", fmt::format("expected --precision fp8 or none, found --precision {}",
                                      train::name(arguments->precision.matmul)));
        arguments->precision = {
            .matmul = train::Precision::quantized,
            .recipe = amp::parse_recipe(text, {.read_file = train::read_recipe_file})};
      },
      "How matmuls are quantized, as train has it; delayed: by the checkpoint's scales");
}

}  // namespace binade::cli
