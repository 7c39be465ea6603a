#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "binade/cli/keys.h"
#include "binade/train/model_precision.h"

namespace binade::cli {

// A training configuration on a command line: a file, and options that override it.
struct ConfigArguments {
  std::string file;
  std::string cure;  // the folder of a run whose settings and cure to take; empty: none
  std::shared_ptr<GivenOptions> options = std::make_shared<GivenOptions>();
};

// Prints the help with every option.
constexpr const char* help_all = "--help-all";

// Adds CONFIG, one option for each key of the configuration and --help-all, which shows those that
// few need; `arguments` must outlive `command`.
void add_configuration(CLI::App& command, ConfigArguments& arguments);

// The complete configuration. `defaults` come before the file and the options. Of a run to resume,
// `warnings` receives what the user should know about its saved settings.
train::Config configuration(const ConfigArguments& arguments, GivenOptions defaults = {},
                            std::vector<std::string>* warnings = nullptr);

// The model's folder that `given` stands for (io::choose_model); prints what was passed over.
std::filesystem::path chosen_model(const std::string& given, std::string_view command);

// The device of that name. Fails if this machine or build does not have it.
Device available_device(const std::string& name);

// The device and the matmul precision of a command that runs a trained model.
struct ModelArguments {
  std::string device = "auto";
  train::InferencePrecision precision = {};

  // Fails if this machine or build does not have the device.
  Device where() const;
  // The model of a folder, ready for the precision.
  std::unique_ptr<nn::LanguageModel> load(const std::filesystem::path& folder,
                                          std::string_view caller) const;
  train::InferenceScope scope() const { return {precision, where()}; }
};

// Adds --device, --precision and --recipe.
void add_model_options(CLI::App& command, const std::shared_ptr<ModelArguments>& arguments);

}  // namespace binade::cli
