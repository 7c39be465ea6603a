#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace binade::cli {

// A text in lines of at most `width` columns, broken at spaces; a word that is longer at "|" or
// ",". All lines but the first begin with `indent` spaces. Line breaks in the text stay.
std::string wrapped(const std::string& text, size_t indent, size_t width);

// Help that fits a terminal. Files have lines of any length.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();

  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string entry(const std::string& name, const std::string& description) const;

  size_t width_;
};

}  // namespace binade::cli
