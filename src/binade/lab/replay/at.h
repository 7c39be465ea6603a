#pragma once

#include <string>

#include "binade/lab/replay/branch.h"
#include "binade/lab/replay/step_view.h"

// What `binade at` does, for programs. A replay is apart from the caller's work: it runs without
// its grad mode, autocast and random stream, and with the CPU's kernels that the run was trained
// with. Other threads must not compute meanwhile.
namespace binade::lab {

// Any tensor of a step of the run in this folder. Fails for a run that cannot be repeated here,
// saying why: other data, another processor.
StepView at(const std::string& run, const ViewOptions& options);

// A run of its own that continues this one after a step, with other settings.
Branch branch(const std::string& run, const BranchOptions& options);

}  // namespace binade::lab
