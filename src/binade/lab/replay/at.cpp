#include "binade/lab/replay/at.h"

#include <string_view>

#include "binade/backend/cpu/gemm/kernel.h"
#include "binade/base/execution.h"
#include "binade/lab/replay/recorded_run.h"

namespace binade::lab {
namespace {

// open_run() selects the kernels of the run for all that follows.
class KernelsOfNow {
 public:
  KernelsOfNow() = default;
  ~KernelsOfNow() { backend::cpu::set_level(level_); }
  KernelsOfNow(const KernelsOfNow&) = delete;
  KernelsOfNow& operator=(const KernelsOfNow&) = delete;

 private:
  std::string_view level_ = backend::cpu::current_level().name;
};

template <class Work>
auto apart(const std::string& folder, Work work) {
  const KernelsOfNow kernels;
  const execution::State initial = execution::State::initial();
  const execution::Scope scope(initial);
  return work(open_run(folder, "at"));
}

}  // namespace

StepView at(const std::string& run, const ViewOptions& options) {
  return apart(run, [&](const RecordedRun& opened) { return view_step(opened, options); });
}

Branch branch(const std::string& run, const BranchOptions& options) {
  return apart(run, [&](const RecordedRun& opened) { return branch_run(opened, options); });
}

}  // namespace binade::lab
