#pragma once

#include <cudnn_frontend.h>

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "binade/backend/determinism.h"
#include "binade/tensor/tensor.h"

// Graphs of cuDNN operations, built once per key and run on the active device's stream. Include it
// only in files that describe such graphs: the frontend is a large header.
namespace binade::backend::cuda::cudnn {

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

// This thread's handle on the active device, bound to its stream.
cudnnHandle_t handle();

fe::DataType_t data_type(DType dtype);

// Everything that a plan depends on: sizes, strides, types, numbers.
using Key = std::vector<int64_t>;
void append(Key& key, const TensorView& x);
void append(Key& key, double value);

// A view as one of a graph's tensors, identified by its uid.
fe::graph::Tensor_attributes describe(const TensorView& x, int64_t uid);
void describe_output(const Attributes& output, const TensorView& x, int64_t uid);

// Addresses of a graph's tensors.
using Pointers = std::unordered_map<int64_t, void*>;

// Built graphs of one operation; each thread has its own.
class Plans {
 public:
  // Describes an empty graph; builds it and says whether cuDNN can run it.
  using Build = std::function<bool(Graph&)>;

  // Runs the graph of `key` and deterministic(), which `build` makes on first use from an empty one
  // that reads and writes `io` and computes in f32. False if cuDNN cannot run it, which is
  // remembered.
  bool run(const Key& key, DType io, const Build& build, Pointers pointers);

 private:
  std::map<Key, std::unique_ptr<Graph>> graphs_;  // null: cuDNN cannot run it
};

}  // namespace binade::backend::cuda::cudnn
