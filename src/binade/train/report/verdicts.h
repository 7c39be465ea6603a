#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "binade/train/report/report.h"

namespace binade::train {

// An entry of doctor.txt.
struct DoctorEntry {
  std::string step;
  std::string name;  // "divergence", "range"; the beginning of its text if it names none
  std::string text;  // all of it
};

// The entries of a doctor.txt, the first ones if there are very many.
std::vector<DoctorEntry> read_verdicts(std::string_view text);

// Places of a report that a verdict refers to.
inline constexpr const char *loss_chart_id = "loss", *gradient_chart_id = "gradient-norm",
                            *rate_chart_id = "learning-rate", *scale_chart_id = "loss-scale";

// The section of a report that says how the run failed and what was found in it, with links to
// charts; empty if it has neither.
std::string verdict_section(const RunSummary& run);

}  // namespace binade::train
