#include "binade/cli/weight_formats.h"

#include "binade/io/file.h"
#include "binade/train/config/component_options.h"

namespace binade::cli {
namespace {

constexpr int64_t max_trained_config = 1 << 20;

}  // namespace

CLI::Option* add_weight_format(CLI::App& command, const std::string& option,
                               const std::string& help,
                               const std::shared_ptr<io::WeightFormatOptions>& options) {
  CLI::Option* const format =
      command.add_option(option, options->format, help)
          ->check([](const std::string& name) {
            return formats::find_weight_format(name) != nullptr
                       ? std::string()
                       : "expected " + formats::weight_format_names() + ", found " + name;
          })
          ->type_name("FORMAT");
  add_weight_parts(command, *options);
  command.get_option("--head")->needs(format);
  command.get_option("--exclude")->needs(format);
  return format;
}

void add_weight_parts(CLI::App& command, io::WeightFormatOptions& options) {
  command.add_flag("--head", options.head, "The LM head in that format, too, if it is not tied");
  command
      .add_option("--exclude", options.exclude,
                  "Linear layers that keep their values, named as in train's --lora-targets")
      ->delimiter(',')
      ->type_name("A,B");
}

io::WeightFormatOptions trained_weight_format(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / "config.toml";
  if (std::error_code error; !std::filesystem::exists(file, error)) return {};
  const std::string saved = io::read_text(file, "export", max_trained_config);
  return train::weight_format_options(train::saved_values(saved, file.string()));
}

}  // namespace binade::cli
