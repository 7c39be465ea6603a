#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace binade::lab {

// What an experiment tells as it goes: once as text for a terminal, once as HTML with pictures.
class ExperimentReport {
 public:
  // A paragraph.
  void say(const std::string& text);
  // Rows of cells below a header; the first column is names.
  void table(const std::vector<std::string>& header,
             const std::vector<std::vector<std::string>>& rows);
  // A finished <figure>; pages only.
  void figure(const std::string& html) { figures_ += html; }
  // Text as it stands, such as a diagnosis.
  void quote(const std::string& text);
  // The last word: what has been shown.
  void proves(const std::string& text);

  const std::string& text() const { return text_; }
  // The words, and beside them, where there is room, the pictures.
  std::string html() const;

 private:
  std::string text_, html_, figures_;
};

// One demonstration of `binade lab`.
struct Experiment {
  std::string_view name;
  std::string_view title;
  void (*run)(ExperimentReport& report);
};

std::span<const Experiment> experiments();
// Fails naming the experiments there are.
const Experiment& find_experiment(std::string_view name);

// All stories on one page that needs nothing but itself.
struct CompletedExperiment {
  Experiment experiment;
  ExperimentReport report;
};
std::string lab_page(const std::vector<CompletedExperiment>& stories);

}  // namespace binade::lab
