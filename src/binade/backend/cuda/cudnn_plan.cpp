#ifdef BINADE_CUDNN

#include "binade/backend/cuda/cudnn_plan.h"

#include <bit>

#include "binade/backend/cuda/device.h"
#include "binade/base/error.h"
#include "binade/tensor/memory.h"

namespace binade::backend::cuda::cudnn {
namespace {

void check_status(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail(call, {.argument = "cuDNN",
              .expected = "success",
              .found = std::string(cudnnGetErrorString(status))});
}

class Handle {
 public:
  Handle() {
    check_status(cudnnCreate(&handle_), "cudnnCreate");
    check_status(cudnnSetStream(handle_, stream()), "cudnnSetStream");
  }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

std::vector<int64_t> numbers(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

cudnnHandle_t handle() {
  // By device. cuDNN lets no two threads use one handle at the same time.
  thread_local std::map<int, Handle> handles;
  return handles[device().index].get();
}

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return fe::DataType_t::FLOAT;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    default:
      fail(
          "cuDNN",
          {.argument = "dtype", .expected = "f32, f16 or bf16", .found = std::string(name(dtype))});
  }
}

void append(Key& key, const TensorView& x) {
  key.push_back(static_cast<int64_t>(x.dtype));
  key.insert(key.end(), x.shape.begin(), x.shape.end());
  key.insert(key.end(), x.strides.begin(), x.strides.end());
}

void append(Key& key, double value) { key.push_back(std::bit_cast<int64_t>(value)); }

fe::graph::Tensor_attributes describe(const TensorView& x, int64_t uid) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_data_type(data_type(x.dtype))
      .set_dim(numbers(x.shape))
      .set_stride(numbers(x.strides));
}

void describe_output(const Attributes& output, const TensorView& x, int64_t uid) {
  output->set_output(true)
      .set_uid(uid)
      .set_data_type(data_type(x.dtype))
      .set_dim(numbers(x.shape))
      .set_stride(numbers(x.strides));
}

bool Plans::run(const Key& key, DType io, const Build& build, Pointers pointers) {
  Key device_key = key;
  device_key.push_back(device().index);
  device_key.push_back(deterministic());
  auto found = graphs_.find(device_key);
  if (found == graphs_.end()) {
    auto graph = std::make_unique<Graph>();
    // Before build(): each node copies these types when it is added.
    graph->set_io_data_type(data_type(io))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (!build(*graph)) graph = nullptr;
    found = graphs_.emplace(std::move(device_key), std::move(graph)).first;
  }
  const Graph* graph = found->second.get();
  if (graph == nullptr) return false;
  const memory::CategoryGuard guard(memory::Category::workspace);
  const Tensor workspace = Tensor::empty({graph->get_workspace_size()}, DType::u8, device());
  auto status = graph->execute(handle(), pointers, workspace.raw_data());
  if (status.is_bad()) {
    fail("cuDNN", {.argument = "graph", .expected = "success", .found = status.get_message()});
  }
  return true;
}

}  // namespace binade::backend::cuda::cudnn

#endif  // BINADE_CUDNN
