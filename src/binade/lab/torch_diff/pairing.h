#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "binade/lab/torch_diff/observation.h"
#include "binade/lab/torch_diff/recording.h"
#include "binade/lab/torch_diff/values.h"

// Which results of a torch model are a model's, by value.
namespace binade::lab {

// A recorded result that has the elements of one of ours, its axes taken in an order.
struct Counterpart {
  size_t result = 0;
  AxisOrder order = {};
  Distance distance = {};  // if it was compared
};

// Columns of a packed result, which torch computes apart: q of q, k and v.
struct ResultPart {
  std::string name;  // empty: all of it
  int64_t width = 0, begin = 0, end = 0;
  std::vector<Counterpart> counterparts;  // empty: none is within rounding
};

// Which columns the results of an op may consist of for torch; empty: nothing is packed.
std::vector<ResultPart> packed_parts(const nn::LanguageModelConfig& config,
                                     const std::string& module, int64_t width);

// The columns of a part.
Values part_of(const Values& whole, const ResultPart& part);

// How far rounding may move a result: eight times what moved weights have moved it, and four
// roundings of its own; more of a few numbers, whose movement may be small by chance.
Distance limit_of(const Values& x, const Values& moved, double roundoff);

// Whether rounding may move a tensor by half of it or more.
bool is_noise(const Values& x, const Distance& limit);

// Of recorded results, those between two.
struct Region {
  int64_t after = -1;
  std::optional<size_t> end = {};
};

class RecordedValues {
 public:
  explicit RecordedValues(const TorchRecording& recording);

  // The one within `limit` of x that is nearest, first, and those that are as near but for
  // rounding. Results around one are searched before the others.
  std::vector<Counterpart> find(const Values& x, const Distance& limit, double roundoff,
                                int64_t around);
  // What torch has in the place of x, of which nothing is within rounding: of the results of its
  // size in a region that are not among `taken`, the first that all that is computed from `sources`
  // goes through; if there is none, the nearest.
  std::optional<Counterpart> instead_of(const Values& x, const std::set<size_t>& sources,
                                        const Region& region, const std::set<size_t>& taken) const;
  std::vector<size_t> outputs_of(const std::string& module) const;
  // What a module returned, and what the first op in it read, if it has as many elements as x.
  std::optional<Counterpart> output_of(const std::string& module, const Values& x);
  std::optional<Counterpart> input_of(const std::string& module, const Values& x);
  // The distance of a counterpart from x, over the larger norm.
  double relative_distance(const Values& x, const Counterpart& counterpart) const;
  bool has_size(int64_t count) const { return by_count_.contains(count); }

  Values load(size_t result) const;
  const TorchRecording& recording() const { return recording_; }

 private:
  void add_match(std::vector<Counterpart>& found, size_t result, const Values& x,
                 const Distance& limit);
  double norm_of(size_t result);
  bool all_goes_through(size_t result, const std::set<size_t>& sources, const Region& region) const;
  int64_t count_of(size_t result) const;  // of elements; -1: not recorded

  const TorchRecording& recording_;
  std::map<int64_t, std::vector<size_t>> by_count_;     // of elements
  std::map<std::string, std::vector<size_t>> outputs_;  // of modules
  std::map<size_t, double> norms_;
  std::vector<std::vector<size_t>> consumers_;
};

// "model.layers.0.self_attn: add in apply_rotary_pos_emb (modeling_llama.py:134)".
std::string describe(const RecordedResult& result);

}  // namespace binade::lab
