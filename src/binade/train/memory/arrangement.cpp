#include "binade/train/memory/arrangement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/train/config/component_options.h"
#include "binade/train/memory/device_memory.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/run/progress.h"

namespace binade::train {
namespace {

// Of free memory, the share that a run may take: layer statistics, libraries and other processes
// need some, and a forecast may err by a few percent.
constexpr double share_of_free = 0.9;

// All arrangements from the one that takes the least memory to the fastest. Even the first keeps
// the last block's activations, with which the backward begins in any case. Lean blocks differ from
// others where results are recomputed.
class Ladder {
 public:
  explicit Ladder(const Config& config)
      : layers_(config.model.layers),
        has_lean_(backend::capabilities(device_of(config)).recomputes_results) {}

  static constexpr int64_t bottom = 1;
  int64_t top() const { return has_lean_ ? 2 * layers_ : layers_; }
  nn::Activations operator[](int64_t rung) const {
    if (rung == top()) return nn::Activations::keep();
    if (!has_lean_) return {.kept = rung, .lean = 0};
    return {.kept = std::max<int64_t>(rung - layers_, 0),
            .lean = rung < layers_ ? rung : nn::Activations::all};
  }

 private:
  int64_t layers_;
  bool has_lean_;
};

// Peak memory of a run: of its steps and, on a CPU, of the copy that checkpoints are written from.
int64_t run_peak(Config config, const nn::Activations& activations,
                 const ranks::Communicator& ranks) {
  config.train.activations = activations;
  const memory::Statistics memory =
      forecast_memory(config, ranks::simulated(ranks.rank(), ranks.size()));
  // A GPU's allocator gives pages back that it needs elsewhere.
  const bool on_host = backend::capabilities(device_of(config)).is_host_readable;
  int64_t bytes = on_host ? memory.peak_reserved : memory.peak;
  if (on_host && config.run.checkpoint_every > 0) {
    for (const auto category : {memory::Category::parameters, memory::Category::optimizer})
      bytes += memory.live[static_cast<size_t>(category)];
  }
  return bytes;
}

int64_t smallest_of(int64_t own, ranks::Communicator& ranks) {
  int64_t smallest = own;
  for (const std::string& text : ranks.all_gather_text("memory", std::to_string(own)))
    smallest = std::min<int64_t>(smallest, std::stoll(text));
  return smallest;
}

int64_t largest_of(int64_t own, ranks::Communicator& ranks) { return -smallest_of(-own, ranks); }

int64_t budget_of(const Config& config, ranks::Communicator& ranks) {
  if (config.train.memory.kind == MemoryBudget::Kind::bytes) return config.train.memory.bytes;
  // Ranks of a machine share its memory; each has a GPU of its own.
  const Device device = device_of(config);
  const int local = backend::capabilities(device).is_host_readable ? ranks.local_size() : 1;
  const auto own = static_cast<double>(free_memory(device)) * share_of_free / local;
  return smallest_of(static_cast<int64_t>(own), ranks);
}

[[noreturn]] void refuse(const Arrangement& least, const Config& config,
                         const ranks::Communicator& ranks) {
  std::string hint = "use a smaller batch or a smaller model";
  for (const std::string& saving : savings(least, config, ranks)) hint += "; " + saving;
  fail("train", {.argument = "--memory " + to_text(config.train.memory),
                 .expected = fmt::format("at least {}, with all activations computed again",
                                         bytes_text(least.peak)),
                 .found = bytes_text(least.budget),
                 .hint = hint});
}

}  // namespace

Arrangement arrange(const Config& config, const std::shared_ptr<ranks::Communicator>& ranks) {
  const Ladder ladder(config);
  const auto arranged = [&](int64_t rung, int64_t budget) {
    return Arrangement{.activations = ladder[rung],
                       .peak = largest_of(run_peak(config, ladder[rung], *ranks), *ranks),
                       .budget = budget};
  };
  const bool least = config.train.memory.kind == MemoryBudget::Kind::least;
  const int64_t budget = least ? arranged(Ladder::bottom, 0).peak : budget_of(config, *ranks);
  Arrangement best = arranged(ladder.top(), budget);
  if (best.fits()) return best;
  // Memory grows with the rung: halve what is between one that fits and one that does not.
  best = arranged(Ladder::bottom, budget);
  if (!best.fits()) {
    if (config.train.memory.kind == MemoryBudget::Kind::bytes) refuse(best, config, *ranks);
    return best;
  }
  for (int64_t good = Ladder::bottom, bad = ladder.top(); bad - good > 1;) {
    const int64_t middle = (good + bad) / 2;
    const Arrangement next = arranged(middle, budget);
    (next.fits() ? good : bad) = middle;
    if (next.fits()) best = next;
  }
  return best;
}

std::string describe(const Arrangement& arrangement, const Config& config) {
  const auto [kept, lean] = arrangement.activations;
  const int64_t all = config.model.layers, whole = std::min(kept, all),
                light = std::min(lean, all - whole), again = all - whole - light;
  std::string parts;
  for (const auto& [count, what] :
       {std::pair(whole, "kept"), std::pair(light, "lean"), std::pair(again, "recomputed")}) {
    if (count == 0) continue;
    parts += count == all ? fmt::format("all activations {}", what)
                          : fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, what);
  }
  const bool mixed = std::max({whole, light, again}) < all;
  return fmt::format("{}{}; {}{}", bytes_text(arrangement.peak),
                     arrangement.budget > 0 ? " of " + bytes_text(arrangement.budget) : "",
                     mixed ? fmt::format("activations of {} blocks: ", all) : "", parts);
}

std::vector<std::string> savings(const Arrangement& arrangement, const Config& config,
                                 const ranks::Communicator& ranks) {
  if (arrangement.activations == nn::Activations::keep()) return {};
  const int64_t peak = run_peak(config, arrangement.activations, ranks);
  std::vector<std::string> offers;
  const auto offer = [&](const char* options, const std::function<void(Config&)>& change) {
    Config other = config;
    change(other);
    const int64_t saved = peak - run_peak(other, arrangement.activations, ranks);
    if (saved > peak / 100)
      offers.push_back(fmt::format("{} would save {}", options, bytes_text(saved)));
  };
  const bool has_moments = config.train.optimizer == OptimizerKind::adamw ||
                           config.train.optimizer == OptimizerKind::muon;
  if (has_moments && config.precision.moments != DType::u8 && config.lora.rank == 0)
    offer("--moments 8bit", [](Config& c) { c.precision.moments = DType::u8; });
  const bool in_bf16 =
      config.precision.matmul == Precision::bf16 || config.precision.matmul == Precision::quantized;
  if (in_bf16 && config.precision.params != ParameterStorage::split && config.lora.rank == 0)
    offer("--params split", [](Config& c) { c.precision.params = ParameterStorage::split; });
  return offers;
}

}  // namespace binade::train
