#ifdef BINADE_CUDNN

#include "binade/backend/cuda/conv/cudnn.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "binade/backend/cuda/cudnn_plan.h"

namespace binade::backend::cuda::cudnn {
namespace {

enum Uid : int64_t { uid_x = 1, uid_weight, uid_y };

bool supports(std::initializer_list<const TensorView*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorView* x) {
    return x->dtype != DType::f64 && x->numel() > 0 &&
           reinterpret_cast<uintptr_t>(x->data) % 16 == 0;
  });
}

// A convolution of x with weight into y, any of which may be the result. The first spatial axis is
// dropped if its sizes are 1, since cuDNN has more and faster engines for two axes.
struct ConvProblem {
  TensorView x, weight, y;
  std::vector<int64_t> stride, padding, dilation;

  ConvProblem(const TensorView& x_given, const TensorView& weight_given, const TensorView& y_given,
              const ConvGeometry& geometry)
      : x(x_given),
        weight(weight_given),
        y(y_given),
        stride(geometry.stride.begin(), geometry.stride.end()),
        padding(geometry.padding.begin(), geometry.padding.end()),
        dilation(geometry.dilation.begin(), geometry.dilation.end()) {
    if (x.shape[2] != 1 || weight.shape[2] != 1 || y.shape[2] != 1 || padding[0] != 0) return;
    for (TensorView* tensor : {&x, &weight, &y}) {
      tensor->shape.erase(2);
      tensor->strides.erase(2);
    }
    for (std::vector<int64_t>* numbers : {&stride, &padding, &dilation})
      numbers->erase(numbers->begin());
  }

  Key key() const {
    Key key;
    for (const TensorView* tensor : {&x, &weight, &y}) append(key, *tensor);
    for (const std::vector<int64_t>* numbers : {&stride, &padding, &dilation})
      key.insert(key.end(), numbers->begin(), numbers->end());
    return key;
  }
  template <class Options>
  Options options() const {
    return Options().set_stride(stride).set_padding(padding).set_dilation(dilation);
  }
  Pointers pointers() const {
    return {{uid_x, x.data}, {uid_weight, weight.data}, {uid_y, y.data}};
  }
};

// Builds the engine that cuDNN's heuristic ranks first among those that sum in f32, in a fixed
// order and without transforming or rounding the values.
bool finish(Graph& graph, const ConvProblem& problem) {
  if (graph.validate().is_bad() || graph.build_operation_graph(handle()).is_bad()) return false;
  if (graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad())
    return false;
  using Note = fe::NumericalNote_t;
  std::vector<Note> unwanted{Note::REDUCED_PRECISION_REDUCTION, Note::FFT, Note::WINOGRAD,
                             Note::DOWN_CONVERT_INPUTS};
  if (deterministic()) unwanted.push_back(Note::NONDETERMINISTIC);
  // Tensor cores round f32 to TF32.
  if (problem.x.dtype == DType::f32) unwanted.push_back(Note::TENSOR_CORE);
  graph.deselect_numeric_notes(unwanted);
  return graph.check_support(handle()).is_good() && graph.build_plans(handle()).is_good();
}

}  // namespace

bool conv_forward(const TensorView& x, const TensorView& weight, const ConvGeometry& geometry,
                  const TensorView& y) {
  if (!supports({&x, &weight, &y})) return false;
  thread_local Plans plans;
  const ConvProblem problem(x, weight, y, geometry);
  const auto build = [&](Graph& graph) {
    const auto result = graph.conv_fprop(graph.tensor(describe(problem.x, uid_x)),
                                         graph.tensor(describe(problem.weight, uid_weight)),
                                         problem.options<fe::graph::Conv_fprop_attributes>());
    describe_output(result, problem.y, uid_y);
    return finish(graph, problem);
  };
  return plans.run(problem.key(), problem.x.dtype, build, problem.pointers());
}

bool conv_backward_input(const TensorView& dy, const TensorView& weight,
                         const ConvGeometry& geometry, const TensorView& dx) {
  if (!supports({&dy, &weight, &dx})) return false;
  thread_local Plans plans;
  const ConvProblem problem(dx, weight, dy, geometry);
  const auto build = [&](Graph& graph) {
    const auto result = graph.conv_dgrad(graph.tensor(describe(problem.y, uid_y)),
                                         graph.tensor(describe(problem.weight, uid_weight)),
                                         problem.options<fe::graph::Conv_dgrad_attributes>());
    describe_output(result, problem.x, uid_x);
    return finish(graph, problem);
  };
  return plans.run(problem.key(), problem.x.dtype, build, problem.pointers());
}

bool conv_backward_weight(const TensorView& x, const TensorView& dy, const ConvGeometry& geometry,
                          const TensorView& dweight) {
  if (!supports({&x, &dy, &dweight})) return false;
  thread_local Plans plans;
  const ConvProblem problem(x, dweight, dy, geometry);
  const auto build = [&](Graph& graph) {
    const auto result = graph.conv_wgrad(graph.tensor(describe(problem.y, uid_y)),
                                         graph.tensor(describe(problem.x, uid_x)),
                                         problem.options<fe::graph::Conv_wgrad_attributes>());
    describe_output(result, problem.weight, uid_weight);
    return finish(graph, problem);
  };
  return plans.run(problem.key(), problem.x.dtype, build, problem.pointers());
}

}  // namespace binade::backend::cuda::cudnn

#endif  // BINADE_CUDNN
