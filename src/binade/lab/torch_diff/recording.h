#pragma once

#include <map>
#include <string>
#include <vector>

#include "binade/base/json.h"
#include "binade/io/safetensors.h"

// What a torch model computed, as binade.torch.record writes it.
namespace binade::lab {

struct RecordedResult {
  std::string module;                // path of the module that ran; empty: none
  std::string op;                    // torch's function; "input" or "output" if it was not seen
  std::string function, line;        // Python's, and "modeling_llama.py:134"
  std::vector<std::string> outputs;  // modules that returned the result
  std::vector<int64_t> from;         // the results that it was computed from
  std::string value, gradient;       // names of tensors; empty: not recorded
  bool has_no_gradient = false;      // one was expected, and none came: it is zero
};

struct RecordedWeight {
  Shape shape;
  DType dtype = DType::f32;
  uint64_t checksum = 0;
  std::string sample;    // tensor of some of its elements, at equal distances
  std::string gradient;  // empty: not recorded
  bool has_no_gradient = false;
};

// A recording, opened; values are read on demand.
class TorchRecording {
 public:
  // Fails unless every field is valid.
  explicit TorchRecording(const io::Path& path);

  const std::string& name() const { return name_; }
  // In the order of their computation.
  const std::vector<RecordedResult>& results() const { return results_; }
  const std::map<std::string, RecordedWeight>& weights() const { return weights_; }
  // Modules that dropped elements at random; tensors that were left out.
  const std::vector<std::string>& random() const { return random_; }
  const std::vector<std::string>& skipped() const { return skipped_; }
  const Tensor& tokens() const { return tokens_; }    // i64 [batch, tokens]
  const Tensor& targets() const { return targets_; }  // undefined: not recorded
  bool has_gradients() const { return has_gradients_; }
  // The widest unit roundoff of the results' types.
  double roundoff() const { return roundoff_; }

  Tensor load(const std::string& tensor) const { return file_.load(tensor); }
  // Undefined: not recorded.
  Tensor gradient_of(const RecordedResult& result) const;
  Tensor gradient_of(const RecordedWeight& weight) const;
  Shape shape_of(const std::string& tensor) const;

 private:
  void read_results(const json::Value& results);
  void read_weights(const json::Value& weights);
  void read_tensors();
  void take_result(const io::TensorEntry& entry, std::string_view rest, bool gradient);
  Tensor batch(const char* tensor) const;

  std::string name_;
  io::SafetensorsFile file_;
  std::vector<RecordedResult> results_;
  std::map<std::string, RecordedWeight> weights_;
  std::vector<std::string> random_, skipped_;
  Tensor tokens_, targets_;
  bool has_gradients_ = false;
  double roundoff_;
};

// Half the distance of 1 to the next number.
double unit_roundoff(DType dtype);

// The sum, modulo 2^64, of all elements' bits plus 1, each times the odd number 2 * index + 1. `x`
// is dense and on the host.
uint64_t weight_checksum(const Tensor& x);

}  // namespace binade::lab
