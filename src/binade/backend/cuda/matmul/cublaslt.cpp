#include "binade/backend/cuda/matmul/cublaslt.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "binade/backend/cuda/device.h"
#include "binade/backend/cuda/matmul/tuning_cache.h"
#include "binade/backend/cuda/tuning.h"
#include "binade/base/error.h"
#include "binade/tensor/tensor.h"

namespace binade::backend::cuda {
namespace {

constexpr size_t workspace_bytes = 32 << 20;  // NVIDIA's recommendation for Hopper
constexpr int candidate_count = 16;  // that tuning times, from the top of cuBLASLt's ranking
// Below, a GEMM takes a few microseconds, about as long as its launch: nothing to gain.
constexpr double flops_worth_tuning = 1e9;
// Below, it takes under 30 us, and many of these would tune for long.
constexpr double flops_worth_sustained_tuning = 2e10;

void check_blas(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail("matmul", {.argument = std::string(call),
                  .expected = "success",
                  .found = cublasLtGetStatusString(status)});
}

cudaDataType_t cuda_type(DType type) {
  switch (type) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      fail("matmul",
           {.argument = "dtype", .expected = "a floating type", .found = std::string(name(type))});
  }
}

// Descriptors are opaque pointers that cuBLASLt creates and destroys.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* descriptor) const {
    destroy(descriptor);
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  check_blas(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof(value)),
             "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_blas(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

// The descriptors and the algorithm of a GEMM, made once per key.
struct Plan {
  Operation operation;
  Layout a, b, c, d;  // c: what beta would multiply, d itself if that is not FP8
  bool supported = false;
  cublasLtMatmulAlgo_t algorithm = {};
};

// State shared by all GEMMs of one GPU.
struct Context {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  Tensor workspace;
  std::unique_ptr<AlgorithmFile> file;
  std::map<GemmKey, Plan> plans;
};

// Never destroyed: at exit the driver may be unloaded first.
Context& active_context() {
  static auto& contexts = *new std::vector<Context>(devices().size());
  return contexts[static_cast<size_t>(device().index)];
}

void prepare(Context& context) {
  if (context.handle != nullptr) return;
  const memory::CategoryGuard category(memory::Category::workspace);
  context.workspace = Tensor::empty({static_cast<int64_t>(workspace_bytes)}, DType::u8, device());
  context.file = std::make_unique<AlgorithmFile>(properties(), tuning());
  check_blas(cublasLtCreate(&context.handle), "cublasLtCreate");
}

// The largest power of two up to 256 that divides an address; 256 for null.
int64_t alignment(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<int64_t>(bits & (~bits + 1));
}

// Everything that the choice of an algorithm depends on: not the addresses, nor alpha's value.
GemmKey key_of(const BlasGemm& p) {
  return {p.rows,
          p.columns,
          p.depth,
          p.batch,
          static_cast<int64_t>(p.a.type),
          static_cast<int64_t>(p.b.type),
          static_cast<int64_t>(p.d.type),
          p.a.leading,
          p.b.leading,
          p.d.leading,
          p.a.batch_stride,
          p.b.batch_stride,
          p.d.batch_stride,
          alignment(p.a.data),
          alignment(p.b.data),
          alignment(p.d.data),
          p.transpose_a,
          p.transpose_b,
          p.beta != 0,
          p.device_scalars != nullptr,
          (p.scale_a != nullptr) + 2 * (p.scale_b != nullptr) +
              4 * static_cast<int64_t>(p.scaling_a) + 16 * static_cast<int64_t>(p.scaling_b) +
              64 * (p.amax_d != nullptr),
          p.tf32,
          p.fast_accumulation,
          p.bias == nullptr ? 0 : alignment(p.bias),
          p.gelu,
          p.aux.data == nullptr ? 0 : alignment(p.aux.data),
          p.aux.leading,
          p.aux.batch_stride};
}

Layout make_layout(const BlasMatrix& matrix, int64_t rows, int64_t columns, int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_blas(
      cublasLtMatrixLayoutCreate(&layout, cuda_type(matrix.type), static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(columns), matrix.leading),
      "cublasLtMatrixLayoutCreate");
  Layout owned(layout);
  const auto count = static_cast<int32_t>(batch);
  check_blas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof(count)),
             "cublasLtMatrixLayoutSetAttribute");
  check_blas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &matrix.batch_stride, sizeof(matrix.batch_stride)),
             "cublasLtMatrixLayoutSetAttribute");
  return owned;
}

cublasLtEpilogue_t epilogue_of(const BlasGemm& p) {
  if (!p.gelu) return p.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  if (p.aux.data != nullptr)
    return p.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  return p.bias != nullptr ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
}

int32_t scale_mode(BlasScale scaling) {
  switch (scaling) {
    case BlasScale::tensor:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    case BlasScale::outer:
      return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case BlasScale::line:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case BlasScale::block:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

Operation make_operation(const BlasGemm& p) {
  const bool wide = p.d.type == DType::f64;
  const cublasComputeType_t compute = wide     ? CUBLAS_COMPUTE_64F
                                      : p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                               : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  check_blas(cublasLtMatmulDescCreate(&operation, compute, wide ? CUDA_R_64F : CUDA_R_32F),
             "cublasLtMatmulDescCreate");
  Operation owned(operation);
  const auto op = [](bool transpose) {
    return static_cast<int32_t>(transpose ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(owned, CUBLASLT_MATMUL_DESC_TRANSA, op(p.transpose_a));
  set(owned, CUBLASLT_MATMUL_DESC_TRANSB, op(p.transpose_b));
  set(owned, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue_of(p)));
  if (p.device_scalars != nullptr) {
    set(owned, CUBLASLT_MATMUL_DESC_POINTER_MODE,
        static_cast<int32_t>(CUBLASLT_POINTER_MODE_DEVICE));
  }
  if (p.scaling_a != BlasScale::tensor) {
    set(owned, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(p.scaling_a));
    set(owned, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(p.scaling_b));
  }
  if (p.fast_accumulation) set(owned, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  if (p.bias != nullptr) {
    set(owned, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(cuda_type(p.d.type)));
  }
  if (p.aux.data != nullptr) {
    set(owned, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux.leading);
    set(owned, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, p.aux.batch_stride);
  }
  return owned;
}

void set_addresses(const Plan& plan, const BlasGemm& p) {
  if (p.bias != nullptr) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.aux.data != nullptr)
    set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux.data);
  if (p.scale_a != nullptr) set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scale_a);
  if (p.scale_b != nullptr) set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scale_b);
  if (p.scale_d != nullptr) set(plan.operation, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, p.scale_d);
  if (p.amax_d != nullptr) set(plan.operation, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, p.amax_d);
}

cublasStatus_t run(Context& context, const Plan& plan, const BlasGemm& p, void* d,
                   const cublasLtMatmulAlgo_t& algorithm) {
  const double wide[] = {p.alpha, p.beta};
  const float narrow[] = {p.alpha, p.beta};
  const bool is_wide = p.d.type == DType::f64;
  const void* alpha = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* beta = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  if (p.device_scalars != nullptr) {
    alpha = p.device_scalars;
    beta = static_cast<const char*>(alpha) + (is_wide ? sizeof(double) : sizeof(float));
  }
  const void* const c = is_quantized(p.d.type) ? nullptr : d;
  return cublasLtMatmul(context.handle, plan.operation.get(), alpha, p.a.data, plan.a.get(),
                        p.b.data, plan.b.get(), beta, c, plan.c.get(), d, plan.d.get(), &algorithm,
                        context.workspace.raw_data(), workspace_bytes, stream());
}

std::vector<cublasLtMatmulAlgo_t> candidates(Context& context, const Plan& plan,
                                             const BlasGemm& p) {
  cublasLtMatmulPreference_t made = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{workspace_bytes});
  // Partial sums are reduced in the compute type.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto align = [](const BlasMatrix& matrix) {
    return static_cast<uint32_t>(alignment(matrix.data));
  };
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align(p.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align(p.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align(p.d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align(p.d));

  cublasLtMatmulHeuristicResult_t results[candidate_count] = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      context.handle, plan.operation.get(), plan.a.get(), plan.b.get(), plan.c.get(), plan.d.get(),
      preference.get(), candidate_count, results, &found);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;  // not supported
  for (int i = 0; i < found; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(results[i].algo);
  }
  return algorithms;
}

struct Events {
  cudaEvent_t begin = nullptr, end = nullptr;

  Events() {
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
  }
  ~Events() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
};

double flops(const BlasGemm& p) {
  return 2.0 * static_cast<double>(p.rows) * static_cast<double>(p.columns) *
         static_cast<double>(p.depth) * static_cast<double>(p.batch);
}

// Runs an algorithm `repeats` times and returns the milliseconds of one.
float time_runs(Context& context, const Plan& plan, const BlasGemm& p, void* d,
                const cublasLtMatmulAlgo_t& algorithm, int repeats) {
  const Events events;
  check(cudaEventRecord(events.begin, stream()), "cudaEventRecord");
  for (int i = 0; i < repeats; ++i)
    check_blas(run(context, plan, p, d, algorithm), "cublasLtMatmul");
  check(cudaEventRecord(events.end, stream()), "cudaEventRecord");
  wait_for(events.end);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events.begin, events.end), "cudaEventElapsedTime");
  return milliseconds / static_cast<float>(repeats);
}

// Milliseconds of one run among a few; infinite if the algorithm fails.
float brief_time(Context& context, const Plan& plan, const BlasGemm& p, void* d,
                 const cublasLtMatmulAlgo_t& algorithm) {
  constexpr double enough_flops = 2e11;  // 0.3 ms of bf16 or 4 ms of f32 on an H200
  const int repeats = static_cast<int>(std::clamp(enough_flops / flops(p), 2.0, 20.0));
  if (run(context, plan, p, d, algorithm) != CUBLAS_STATUS_SUCCESS)
    return std::numeric_limits<float>::infinity();
  return time_runs(context, plan, p, d, algorithm, repeats);
}

// Milliseconds of one run after 30 ms of them: under a power limit, the algorithm that takes the
// least energy is the fastest, at lower clocks than in a few runs.
float sustained_time(Context& context, const Plan& plan, const BlasGemm& p, void* d,
                     const cublasLtMatmulAlgo_t& algorithm, float brief) {
  constexpr float period = 30;  // choices after 10 ms were no better than brief ones
  const int repeats = std::max(2, static_cast<int>(period / brief));
  time_runs(context, plan, p, d, algorithm, repeats);
  return time_runs(context, plan, p, d, algorithm, repeats);
}

// A copy of d for the trials of a GEMM that adds to d. Not from the caching allocator: it is needed
// once, and memory forecasts do not include it.
class Scratch {
 public:
  explicit Scratch(const BlasGemm& p) {
    const int64_t elements =
        (p.batch - 1) * p.d.batch_stride + (p.columns - 1) * p.d.leading + p.rows;
    const size_t bytes = static_cast<size_t>(elements) * size_of(p.d.type);
    if (cudaMalloc(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();
      data_ = nullptr;
      return;
    }
    check(cudaMemcpyAsync(data_, p.d.data, bytes, cudaMemcpyDeviceToDevice, stream()),
          "cudaMemcpyAsync");
  }
  ~Scratch() { cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// The fastest of the candidates, or the first if there is no memory to try them.
cublasLtMatmulAlgo_t fastest(Context& context, const Plan& plan, const BlasGemm& p,
                             const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
  std::optional<Scratch> scratch;
  void* d = p.d.data;  // beta 0: every trial writes the final result
  if (p.beta != 0) d = scratch.emplace(p).data();
  if (d == nullptr) return algorithms.front();
  std::vector<float> times;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms)
    times.push_back(brief_time(context, plan, p, d, algorithm));
  const float least = *std::min_element(times.begin(), times.end());
  if (tuning() == Tuning::sustained && flops(p) > flops_worth_sustained_tuning &&
      std::isfinite(least)) {
    constexpr float worth_a_trial = 1.1F;  // the ranking changes by up to a tenth
    for (size_t i = 0; i < times.size(); ++i) {
      times[i] = times[i] <= worth_a_trial * least
                     ? sustained_time(context, plan, p, d, algorithms[i], times[i])
                     : std::numeric_limits<float>::infinity();
    }
  }
  return algorithms[static_cast<size_t>(std::min_element(times.begin(), times.end()) -
                                        times.begin())];
}

// Whether this cuBLASLt can run a remembered algorithm.
bool can_run(Context& context, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result = {};
  return cublasLtMatmulAlgoCheck(context.handle, plan.operation.get(), plan.a.get(), plan.b.get(),
                                 plan.c.get(), plan.d.get(), &algorithm,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
}

Plan make_plan(Context& context, const BlasGemm& p, const GemmKey& key) {
  Plan plan;
  plan.operation = make_operation(p);
  const auto stored = [](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  const auto [a_rows, a_columns] = stored(p.transpose_a, p.rows, p.depth);
  const auto [b_rows, b_columns] = stored(p.transpose_b, p.depth, p.columns);
  plan.a = make_layout(p.a, a_rows, a_columns, p.batch);
  plan.b = make_layout(p.b, b_rows, b_columns, p.batch);
  plan.d = make_layout(p.d, p.rows, p.columns, p.batch);
  BlasMatrix c = p.d;
  if (is_quantized(c.type)) c.type = DType::bf16;
  plan.c = make_layout(c, p.rows, p.columns, p.batch);
  set_addresses(plan, p);

  const bool tune = flops(p) > flops_worth_tuning && tuning() != Tuning::off;
  if (tune) {
    const auto remembered = context.file->find(key);
    if (remembered && can_run(context, plan, *remembered)) {
      plan.algorithm = *remembered;
      plan.supported = true;
      return plan;
    }
  }
  const std::vector<cublasLtMatmulAlgo_t> algorithms = candidates(context, plan, p);
  plan.supported = !algorithms.empty();
  if (!plan.supported) return plan;
  plan.algorithm = algorithms.front();
  if (tune && !is_capturing()) {
    // Work that waits for another rank would hold the lock that the rank may be waiting for.
    synchronize();
    const ChoiceFile::Lock lock = context.file->lock();
    const auto tuned_elsewhere = context.file->find_again(key);
    if (tuned_elsewhere && can_run(context, plan, *tuned_elsewhere)) {
      plan.algorithm = *tuned_elsewhere;
      return plan;
    }
    plan.algorithm = fastest(context, plan, p, algorithms);
    context.file->add(key, plan.algorithm);
  }
  return plan;
}

}  // namespace

bool blas_gemm(const BlasGemm& gemm) {
  Context& context = active_context();
  const std::lock_guard lock(context.mutex);  // the descriptors hold this call's addresses
  prepare(context);
  const GemmKey key = key_of(gemm);
  auto found = context.plans.find(key);
  if (found == context.plans.end())
    found = context.plans.emplace(key, make_plan(context, gemm, key)).first;
  const Plan& plan = found->second;
  if (!plan.supported) return false;
  set_addresses(plan, gemm);
  check_blas(run(context, plan, gemm, gemm.d.data, plan.algorithm), "cublasLtMatmul");
  return true;
}

}  // namespace binade::backend::cuda
