#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "binade/lab/torch_diff/observation.h"
#include "binade/lab/torch_diff/pairing.h"
#include "binade/lab/torch_diff/torch_diff.h"

namespace binade::lab {

// A result of a model beside torch's.
struct PairedResult {
  std::vector<ResultPart> parts;  // empty: there is nothing to compare
  bool agrees = false;            // all parts have counterparts
  bool is_noise = false;          // rounding may be as large as half of it, so agreeing says little
  double relative = 0;            // the largest distance of a counterpart over the norm
  double share = 0;               // and over what rounding explains
};

struct ForwardInput {
  const nn::LanguageModelConfig& config;
  const Observation& seen;
  const std::map<std::string, std::vector<std::string>>& modules;  // torch_modules()
  int64_t positions = 0;                                           // batch * tokens
  double roundoff = 0;
};

// A model's forward laid beside the recorded one.
class ForwardComparison {
 public:
  ForwardComparison(const ForwardInput& input, RecordedValues& recorded);

  // Of ForwardInput::seen, up to the first module with parameters that differs.
  const std::vector<PairedResult>& pairs() const { return pairs_; }
  // The first op whose inputs agree and whose result does not, and without which a module with
  // parameters, the logits or the loss would not differ.
  std::optional<TorchDifference> first_difference();

 private:
  PairedResult pair(const ObservedResult& result);
  bool pair_part(ResultPart& part, const Values& whole, const Values& moved, PairedResult& paired);
  bool is_anchor(size_t op) const;
  bool agrees(size_t op) const;
  std::vector<size_t> suspects(size_t anchor) const;
  TorchDifference describe_difference(size_t op);
  // What torch computes in the place of a part of a result, which is the op's `number`th.
  std::optional<Counterpart> likely_counterpart(size_t result, size_t number, const Values& x);
  std::optional<Counterpart> counterpart_by_name(size_t result, size_t number, const Values& x);
  std::set<size_t> counterparts_of_others(size_t op) const;
  std::vector<std::string> inputs_of(size_t op) const;
  Region region_of(size_t op, const std::set<size_t>& sources) const;
  // Those of what an op reads, or of the part of that name if it reads one.
  std::set<size_t> counterparts_of_inputs(size_t op, const std::string& part) const;

  ForwardInput input_;
  RecordedValues& recorded_;
  std::vector<PairedResult> pairs_;
  std::map<std::string, size_t> last_of_module_;
  std::optional<size_t> anchor_;  // the first op that differs and is sure to be comparable
  int64_t newest_counterpart_ = 0;
};

// Fills in the first element of x that is farther from y than `limit`, and how far they are.
void add_element(TorchDifference& difference, const Values& x, const Values& y,
                 const Distance& limit, const Shape& shape, const ResultPart& part);

}  // namespace binade::lab
