#ifdef BINADE_CUDNN

#include "binade/backend/cuda/conv/cudnn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "binade/backend/cuda/choice_file.h"
#include "binade/backend/cuda/cudnn_plan.h"
#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/tuning.h"
#include "binade/backend/determinism.h"
#include "binade/tensor/memory.h"

namespace binade::backend::cuda::cudnn {
namespace {

enum Uid : int64_t { uid_x = 1, uid_weight, uid_y };

bool supports(std::initializer_list<const TensorView*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorView* x) {
    return x->dtype != DType::f64 && x->numel() > 0 &&
           reinterpret_cast<uintptr_t>(x->data) % 16 == 0;
  });
}

enum class Direction : uint8_t { forward, backward_input, backward_weight };

// A convolution of x with weight into y, any of which may be the result. The first spatial axis is
// dropped if its sizes are 1, since cuDNN has more and faster engines for two axes.
struct ConvProblem {
  Direction direction;
  TensorView x, weight, y;
  std::vector<int64_t> stride, padding, dilation;

  ConvProblem(Direction direction, const TensorView& x_given, const TensorView& weight_given,
              const TensorView& y_given, const ConvGeometry& geometry)
      : direction(direction),
        x(x_given),
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
    Key key{static_cast<int64_t>(direction)};
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
  double flops() const {
    return 2.0 * static_cast<double>(y.numel()) *
           static_cast<double>(weight.numel() / std::max<int64_t>(weight.shape[0], 1));
  }

  void describe(Graph& graph) const {
    const auto input = [&](const TensorView& view, int64_t uid) {
      return graph.tensor(cudnn::describe(view, uid));
    };
    switch (direction) {
      case Direction::forward:
        return describe_output(graph.conv_fprop(input(x, uid_x), input(weight, uid_weight),
                                                options<fe::graph::Conv_fprop_attributes>()),
                               y, uid_y);
      case Direction::backward_input:
        return describe_output(graph.conv_dgrad(input(y, uid_y), input(weight, uid_weight),
                                                options<fe::graph::Conv_dgrad_attributes>()),
                               x, uid_x);
      case Direction::backward_weight:
        return describe_output(graph.conv_wgrad(input(y, uid_y), input(x, uid_x),
                                                options<fe::graph::Conv_wgrad_attributes>()),
                               weight, uid_weight);
    }
  }
};

// Candidates that tuning times, from the top of cuDNN's ranking: the fastest is nearly always among
// them, and building one takes milliseconds.
constexpr size_t tuned_candidates = 6;
// Less work than this is over in microseconds, whichever engine does it.
constexpr double flops_worth_tuning = 1e9;
// Engines with more workspace than this are left out.
constexpr int64_t max_workspace_bytes = int64_t{256} << 20;

// Finds the engines that sum in f32, in a fixed order and without transforming or rounding the
// values. False if there is none.
bool find_engines(Graph& graph, const ConvProblem& problem) {
  if (graph.validate().is_bad() || graph.build_operation_graph(handle()).is_bad()) return false;
  if (graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad())
    return false;
  using Note = fe::NumericalNote_t;
  std::vector<Note> unwanted{Note::REDUCED_PRECISION_REDUCTION, Note::FFT, Note::WINOGRAD,
                             Note::DOWN_CONVERT_INPUTS};
  if (deterministic()) unwanted.push_back(Note::NONDETERMINISTIC);
  // Tensor cores round f32 to TF32.
  if (problem.x.dtype == DType::f32) unwanted.push_back(Note::TENSOR_CORE);
  graph.deselect_numeric_notes(unwanted).deselect_workspace_greater_than(max_workspace_bytes);
  return graph.check_support(handle()).is_good();
}

// The first engines of cuDNN's ranking that can be built.
std::vector<int64_t> build_engines(Graph& graph, size_t count) {
  std::vector<int64_t> built;
  for (int64_t i = 0; i < graph.get_execution_plan_count() && built.size() < count; ++i)
    if (graph.build_plan_at_index(handle(), i).is_good()) built.push_back(i);
  return built;
}

std::string name_of(const Graph& graph, int64_t engine) {
  std::string name;
  return graph.get_plan_name_at_index(engine, name).is_good() ? name : "";
}

bool execute(Graph& graph, int64_t engine, const ConvProblem& problem) {
  const memory::CategoryGuard guard(memory::Category::workspace);
  const Tensor workspace =
      Tensor::empty({graph.get_workspace_size_plan_at_index(engine)}, DType::u8, device());
  Pointers pointers = problem.pointers();
  return graph.execute_plan_at_index(handle(), pointers, workspace.raw_data(), engine).is_good();
}

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() { check(cudaEventRecord(event_, stream()), "cudaEventRecord"); }
  // Milliseconds since `begin`, once both have happened.
  float since(const Event& begin) const {
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Milliseconds of a few runs after one that warms up; infinite if the engine fails.
float measure(Graph& graph, int64_t engine, const ConvProblem& problem) {
  constexpr int runs = 3;
  if (!execute(graph, engine, problem)) return std::numeric_limits<float>::infinity();
  Event begin, end;
  begin.record();
  for (int i = 0; i < runs; ++i) execute(graph, engine, problem);
  end.record();
  return end.since(begin);
}

// The engine that was the fastest when this machine first met the problem, so that results have the
// same bits in every process. Small problems, and all with BINADE_TUNE=0, take cuDNN's first.
int64_t choose_engine(Graph& graph, const ConvProblem& problem) {
  static std::mutex mutex;
  static ChoiceFile file("cudnn-conv", cudnnGetVersion(), properties());
  const bool tunes = tuning() != Tuning::off && problem.flops() > flops_worth_tuning;
  const std::vector<int64_t> engines = build_engines(graph, tunes ? tuned_candidates : 1);
  if (engines.empty()) return -1;
  if (!tunes) return engines.front();
  const std::lock_guard lock(mutex);
  const std::string text = fmt::format("{} {}", deterministic(), fmt::join(problem.key(), " "));
  if (const auto remembered = file.find(text)) {
    for (const int64_t engine : engines)
      if (name_of(graph, engine) == *remembered) return engine;
  }
  if (is_capturing()) return engines.front();
  int64_t best = engines.front();
  float least = std::numeric_limits<float>::infinity();
  for (const int64_t engine : engines) {
    const float time = measure(graph, engine, problem);
    if (time >= least) continue;
    least = time;
    best = engine;
  }
  file.add(text, name_of(graph, best));
  return best;
}

struct ConvPlan {
  std::unique_ptr<Graph> graph;
  int64_t engine = -1;  // negative: cuDNN cannot run the problem
};

ConvPlan make_plan(const ConvProblem& problem) {
  ConvPlan plan{.graph = std::make_unique<Graph>()};
  // Before the nodes are added, which copy these types.
  plan.graph->set_io_data_type(data_type(problem.x.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  problem.describe(*plan.graph);
  if (find_engines(*plan.graph, problem)) plan.engine = choose_engine(*plan.graph, problem);
  return plan;
}

bool run(const ConvProblem& problem) {
  // Per thread: a plan runs on a handle, which threads do not share.
  thread_local std::map<Key, ConvPlan> plans;
  Key key = problem.key();
  key.push_back(device().index);
  key.push_back(deterministic() ? 1 : 0);
  auto found = plans.find(key);
  if (found == plans.end()) found = plans.emplace(std::move(key), make_plan(problem)).first;
  const ConvPlan& plan = found->second;
  if (plan.engine < 0) return false;
  if (!execute(*plan.graph, plan.engine, problem)) {
    fail("convolution", {.argument = "cuDNN's engine",
                         .expected = "success",
                         .found = name_of(*plan.graph, plan.engine) + " failed"});
  }
  return true;
}

}  // namespace

bool conv_forward(const TensorView& x, const TensorView& weight, const ConvGeometry& geometry,
                  const TensorView& y) {
  return supports({&x, &weight, &y}) && run({Direction::forward, x, weight, y, geometry});
}

bool conv_backward_input(const TensorView& dy, const TensorView& weight,
                         const ConvGeometry& geometry, const TensorView& dx) {
  return supports({&dy, &weight, &dx}) &&
         run({Direction::backward_input, dx, weight, dy, geometry});
}

bool conv_backward_weight(const TensorView& x, const TensorView& dy, const ConvGeometry& geometry,
                          const TensorView& dweight) {
  return supports({&x, &dy, &dweight}) &&
         run({Direction::backward_weight, x, dweight, dy, geometry});
}

}  // namespace binade::backend::cuda::cudnn

#endif  // BINADE_CUDNN
