#include "binade/bench/gemm.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <functional>

#include "binade/backend/backend.h"
#include "binade/backend/capabilities.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/bench/machine.h"
#include "binade/ops/create/create.h"
#include "binade/train/machine.h"

namespace binade::bench {
namespace {

using train::Precision;

// OpenBLAS, loaded at run time if it is installed: Binade does not depend on it.
struct OpenBlas {
  // The parameters of cblas_sgemm.
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  Sgemm sgemm = nullptr;

  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    const auto set_threads =
        reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
    if (set_threads != nullptr) set_threads(threads());
  }

  void multiply(const GemmShape& s, const float* a, const float* b, float* c) const {
    constexpr int row_major = 101, no_transpose = 111;
    const auto size = [](int64_t x) { return static_cast<int>(x); };
    sgemm(row_major, no_transpose, no_transpose, size(s.m), size(s.n), size(s.k), 1, a, size(s.k),
          b, size(s.n), 0, c, size(s.n));
  }
};

// Which of a linear layer's matmuls. Its weight is [n, k]: the forward reads it transposed, the
// input gradient as it is; the weight gradient reads both operands by columns.
enum class Form : uint8_t { forward, dgrad, wgrad };

enum class Devices : uint8_t { all, gpu };

struct Matmul {
  const char* name;
  Precision precision;
  Form form;
  DType operands, result;
  Devices devices = Devices::all;
  ScaleGroup group_a = {}, group_b = {};  // FP8: elements that share a scale along the summed axis
};

constexpr ScaleGroup row = {1, 0}, row_of_128 = {1, 128}, tile_of_128 = {128, 128};
constexpr Matmul all_matmuls[] = {
    {"fp32", Precision::fp32, Form::dgrad, DType::f32, DType::f32},
    {"tf32", Precision::tf32, Form::dgrad, DType::f32, DType::f32, Devices::gpu},
    {"bf16", Precision::bf16, Form::forward, DType::bf16, DType::bf16},
    {"bf16 dgrad", Precision::bf16, Form::dgrad, DType::bf16, DType::bf16},
    {"bf16 wgrad", Precision::bf16, Form::wgrad, DType::bf16, DType::f32},
    {"fp16", Precision::fp16, Form::forward, DType::f16, DType::f16, Devices::gpu},
    {"fp8", Precision::quantized, Form::forward, DType::e4m3, DType::bf16},
    {"fp8 row", Precision::quantized, Form::forward, DType::e4m3, DType::bf16, Devices::gpu, row,
     row},
    {"fp8 block", Precision::quantized, Form::forward, DType::e4m3, DType::bf16, Devices::gpu,
     row_of_128, tile_of_128},
    // Both operands of a weight gradient are quantized again, along the axis it sums over.
    {"fp8 block wgrad", Precision::quantized, Form::forward, DType::e4m3, DType::f32, Devices::gpu,
     row_of_128, row_of_128},
};

Tensor operand(int64_t rows, int64_t columns, DType dtype, bool by_columns, Device device) {
  const Tensor random = randn({rows * columns}, {1, 0}, DType::f32, device),
               values = Tensor::empty({rows * columns}, dtype, device);
  backend::of(device).elementwise.copy(random, values);
  const Strides strides =
      by_columns ? Strides{rows * columns, 1, rows} : Strides{rows * columns, columns, 1};
  return values.strided({1, rows, columns}, strides, 0);
}

std::function<void()> contestant(const Matmul& matmul, const GemmShape& s, Device device) {
  const Tensor a = operand(s.m, s.k, matmul.operands, matmul.form == Form::wgrad, device),
               b = operand(s.k, s.n, matmul.operands, matmul.form == Form::forward, device),
               y = Tensor::empty({1, s.m, s.n}, matmul.result, device),
               scale_a = ones(scale_shape({s.m, s.k}, matmul.group_a), DType::f32, device),
               scale_b = ones(scale_shape({s.n, s.k}, matmul.group_b), DType::f32, device);
  const bool fp8 = matmul.precision == Precision::quantized;
  const bool tf32 = matmul.precision == Precision::tf32;
  return [=] {
    backend::Epilogue epilogue{.tf32 = tf32, .fast_accumulation = fp8};
    if (fp8) {
      epilogue.scale_a = scale_a;
      epilogue.scale_b = scale_b;
      epilogue.group_a = matmul.group_a;
      epilogue.group_b = matmul.group_b;
    }
    backend::of(y).matmul.matmul(a, b, y, epilogue);
  };
}

GemmTiming measure(const GemmShape& s, const std::vector<Matmul>& matmuls, const OpenBlas& openblas,
                   Device device, double seconds) {
  std::vector<std::function<void()>> contestants;
  for (const Matmul& matmul : matmuls) contestants.push_back(contestant(matmul, s, device));
  const bool compare = backend::capabilities(device).is_host_readable && openblas.sgemm != nullptr;
  if (compare) {
    const Tensor a = operand(s.m, s.k, DType::f32, false, device),
                 b = operand(s.k, s.n, DType::f32, false, device),
                 c = Tensor::empty({s.m, s.n}, DType::f32);
    contestants.push_back([=, &openblas] {
      openblas.multiply(s, a.data<float>(), b.data<float>(), c.mutable_data<float>());
    });
  }
  const double operations =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  GemmTiming result{.shape = s, .rates = contest(device, contestants, seconds)};
  for (double& rate : result.rates) rate = operations / rate;
  if (compare) {
    result.openblas = result.rates.back();
    result.rates.pop_back();
  }
  return result;
}

// "84%" and "1.24x"; a dash if there is nothing to compare with.
std::string share_text(double rate, double peak) {
  return peak > 0 ? fmt::format("{:.0f}%", 100 * rate / peak) : "-";
}
std::string times_text(double rate, std::optional<double> openblas) {
  return openblas ? fmt::format("{:.2f}x", rate / *openblas) : "-";
}

}  // namespace

std::vector<GemmShape> default_gemm_shapes() {
  return {{2048, 2048, 2048}, {2048, 256, 256},  {2048, 768, 256},  {2048, 1024, 256},
          {2048, 256, 1024},  {2048, 768, 768},  {2048, 2304, 768}, {2048, 3072, 768},
          {2048, 768, 3072},  {256, 1024, 2048}, {768, 768, 2048},  {768, 3072, 2048}};
}

GemmReport bench_gemm(Device device, const std::vector<GemmShape>& shapes, double seconds) {
  GemmReport report{.device = device};
  std::vector<Matmul> matmuls;
  for (const Matmul& matmul : all_matmuls) {
    if (matmul.devices == Devices::gpu && !device.is_cuda()) continue;
    // Cases of one precision follow each other and have one peak.
    const bool same = !matmuls.empty() && matmuls.back().precision == matmul.precision;
    report.peaks.push_back(same ? report.peaks.back()
                                : train::instruction_peak(device, matmul.precision, seconds / 2));
    matmuls.push_back(matmul);
    report.cases.push_back({matmul.name, matmul.precision});
  }
  const OpenBlas openblas;
  for (const GemmShape& shape : shapes)
    report.shapes.push_back(measure(shape, matmuls, openblas, device, seconds));
  return report;
}

std::string to_table(const GemmReport& report) {
  std::string text = device_text(report.device) + "\npeak, GFLOP/s:";
  for (size_t i = 0; i < report.cases.size(); ++i) {
    if (i == 0 || report.cases[i].precision != report.cases[i - 1].precision)
      text +=
          fmt::format(" {} {:.0f}", train::name(report.cases[i].precision), report.peaks[i] / 1e9);
  }
  text += "\nGFLOP/s (share of peak; times OpenBLAS's f32)\n";
  text += fmt::format("{:>5} {:>5} {:>5} {:>9}", "m", "n", "k", "OpenBLAS");
  for (const GemmCase& column : report.cases) text += fmt::format(" | {:^20}", column.name);
  text += "\n";
  for (const GemmTiming& f : report.shapes) {
    text += fmt::format("{:>5} {:>5} {:>5} {:>9}", f.shape.m, f.shape.n, f.shape.k,
                        f.openblas ? fmt::format("{:.1f}", *f.openblas / 1e9) : "-");
    for (size_t i = 0; i < f.rates.size(); ++i)
      text +=
          fmt::format(" | {:>8.1f} {:>4} {:>6}", f.rates[i] / 1e9,
                      share_text(f.rates[i], report.peaks[i]), times_text(f.rates[i], f.openblas));
    text += "\n";
  }
  const bool compared = !report.shapes.empty() && report.shapes[0].openblas;
  if (backend::capabilities(report.device).is_host_readable && !compared)
    text += "OpenBLAS is not installed (libopenblas.so.0): there is nothing to compare with.\n";
  return text;
}

std::string to_json(const GemmReport& report) {
  json::Writer out(2);
  out.begin_object().key("bench").value("gemm").key("device").value(device_text(report.device));
  out.key("peak_gflops").begin_object();
  for (size_t i = 0; i < report.cases.size(); ++i)
    out.key(report.cases[i].name).value(report.peaks[i] / 1e9);
  out.end_object().key("results").begin_array();
  for (const GemmTiming& f : report.shapes) {
    out.begin_object().key("m").value(f.shape.m).key("n").value(f.shape.n).key("k").value(
        f.shape.k);
    if (f.openblas) out.key("openblas_gflops").value(*f.openblas / 1e9);
    out.key("cases").begin_array();
    for (size_t i = 0; i < f.rates.size(); ++i) {
      out.begin_object().key("name").value(report.cases[i].name);
      out.key("gflops").value(f.rates[i] / 1e9);
      if (report.peaks[i] > 0) out.key("share_of_peak").value(f.rates[i] / report.peaks[i]);
      if (f.openblas) out.key("times_openblas").value(f.rates[i] / *f.openblas);
      out.end_object();
    }
    out.end_array().end_object();
  }
  return out.end_array().end_object().text();
}

}  // namespace binade::bench
