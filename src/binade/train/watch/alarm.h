#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Observes a run from its first step for faults that leave every number finite.
namespace binade::train {

// Why a run is not learning as it should.
enum class Cause : uint8_t {
  first_loss,      // far above that of a model that knows nothing
  divergence,      // the loss climbs
  collapse,        // the loss is that of guessing, and hardly a gradient is left
  no_gradient,     // gradients are zero
  small_gradient,  // the optimizer's eps is larger than the gradients
  stalled,         // updates are rounded away
  harm,            // FP8 loses the signal of layers
};
std::string_view name(Cause cause);

// A fault in a step: one sentence that states it, and one that says what to do.
struct Alarm {
  Cause cause = Cause::divergence;
  int64_t step = 0;
  std::string finding;
  std::string advice;
  std::string module = {};  // parameter that stands out; empty: none does
};

// "divergence: the loss rose ...; largest in head.weight; lower --lr".
std::string to_text(const Alarm& alarm);

}  // namespace binade::train
