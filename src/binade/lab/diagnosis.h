#pragma once

#include <functional>
#include <optional>

#include "binade/amp/autocast.h"
#include "binade/lab/divergence.h"
#include "binade/lab/finding.h"

// Finds the cause of a non-finite value, or of gradients that are lost, and a change that cures it.
namespace binade::lab {

// An exception from the run's precision: an op, or every op if none is named, runs in f32 in a
// module and the modules below it.
struct KeptInF32 {
  std::string module;
  std::optional<Op> op = {};

  bool operator==(const KeptInF32&) const = default;
};

// How a diagnosis runs a computation: as it ran, in f32 throughout, or with changes that may help.
struct Replay {
  bool f32 = false;
  // Every op takes 16-bit inputs to f32 first, also those that the program cast itself.
  bool widens = false;
  std::optional<DType> autocast_type = {};  // instead of the run's
  std::vector<KeptInF32> kept = {};

  // The autocast state to replay a run in, given that of the run:
  //   amp::Autocast cast(replay.autocast({.enabled = true, .dtype = DType::f16}));
  amp::AutocastState autocast(const amp::AutocastState& run) const;
};

// A computation that gives the same result every time it runs.
struct DiagnosisInput {
  // Runs the forward under replay.autocast(). Gradients stay untouched.
  std::function<Tensor(const Replay&)> loss;
  // The parameters the forward reads; those of another replay may be copies.
  std::function<NamedTensors(const Replay&)> parameters;
  double scale = 1;  // loss scale
  // Buffers of modules, such as running statistics.
  std::function<NamedTensors(const Replay&)> buffers = {};
  // The same computation with other batches, which a cure must suit, too.
  std::vector<std::function<Tensor(const Replay&)>> others = {};
  std::vector<StepRecord> history = {};  // of the run, oldest step first
  bool quantized = false;                // whether linear layers run by a recipe
};

enum class Verdict : uint8_t {
  data,        // the batch contains non-finite values
  divergence,  // the loss or the weights grew without bound before
  loss_scale,  // everything is finite at a smaller loss scale
  range,       // a value is beyond the type's largest number; f32 is finite
  underflow,   // a type's smallest number lost a value that matters; f32 keeps it
  op,          // f32 does not help: a division by zero, log(0), a derivative at 0
  state,       // a parameter, buffer or moment was bad before the step
};
std::string_view name(Verdict verdict);

// A change with which the replay was finite: the smallest set of the tried ones, and what other
// batches need besides.
struct Cure {
  std::vector<KeptInF32> kept = {};
  bool quantized = false;  // whether the exceptions must leave the recipe, too
  std::optional<DType> autocast_type = {};
  // Initial loss scale: the largest power of two that every batch allows, where the scaler settles.
  std::optional<double> scale = {};
  int64_t held = 1, batches = 1;  // it was finite on so many of the batches it was replayed on

  std::string toml() const;  // for a configuration file
  std::string cpp() const;   // for a program
};

struct Diagnosis {
  Finding finding;
  Verdict verdict = Verdict::op;
  std::string evidence;           // for the verdict, as a sentence
  std::optional<Finding> in_f32;  // the first non-finite value of the f32 replay
  double largest_scale = 0;  // if the verdict is loss_scale: the largest power of two that works
  std::optional<Cure> cure;  // tried
  std::string advice;        // further advice, which was not tried
};

// Runs the computation and checks every value; if one is non-finite, or gradients are lost to
// underflow, runs it again at other loss scales and precisions to find the cause and a cure.
// Returns nothing if there is no fault. Clears the parameters' gradients.
std::optional<Diagnosis> diagnose(const DiagnosisInput& input);

// The finding, the verdict, and the cure or advice as text.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace binade::lab
