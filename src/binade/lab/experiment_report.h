#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace binade::lab {

// Collects the output of an experiment as text for a terminal and as HTML with figures.
class ExperimentReport {
 public:
  void add_paragraph(const std::string& text);
  // Rows of cells below a header. The first column is left-aligned.
  void add_table(const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);
  // A complete <figure> element; HTML only.
  void add_figure(const std::string& html) { figures_ += html; }
  // Text shown verbatim, such as a diagnosis.
  void add_preformatted(const std::string& text);
  // The last paragraph of an experiment.
  void add_conclusion(const std::string& text);

  const std::string& text() const { return text_; }
  // The text, with the figures beside it on wide screens.
  std::string html() const;

 private:
  std::string text_, html_, figures_;
};

// One experiment of `binade lab`.
struct Experiment {
  std::string_view name;
  std::string_view title;
  void (*run)(ExperimentReport& report);
};

std::span<const Experiment> experiments();
// Fails with a list of the experiments if there is none of that name.
const Experiment& find_experiment(std::string_view name);

struct CompletedExperiment {
  Experiment experiment;
  ExperimentReport report;
};
// All experiments on one self-contained HTML page.
std::string lab_page(const std::vector<CompletedExperiment>& completed);

}  // namespace binade::lab
