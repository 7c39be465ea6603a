#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <thread>

#include "binade/amp/capability.h"
#include "binade/backend/gpu.h"
#include "binade/base/cpu_features.h"
#include "binade/base/json.h"
#include "binade/base/parallel.h"
#include "binade/cli/commands.h"
#include "binade/ranks/communicator.h"
#include "binade/train/machine.h"
#include "binade/train/memory/device_memory.h"
#include "binade/train/run/progress.h"

namespace binade::cli {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2};

const char* no_gpu_reason() {
  return backend::built_with_cuda() ? "found" : "usable: this build has no CUDA backend";
}

void write_support(json::Writer& out, Device device) {
  out.key("matmul").begin_object();
  for (const DType type : types)
    out.key(name(type)).value(amp::name(amp::matmul_support(type, device)));
  out.end_object();
}

std::string support_text(Device device) {
  std::string text;
  for (const DType type : types)
    text += fmt::format("  {:6}  {}\n", name(type), amp::name(amp::matmul_support(type, device)));
  return text;
}

// By what processes can train together.
std::string ranks_text() {
  const std::string mpi = ranks::mpi_version(), nccl = ranks::nccl_version();
  return "many, by TCP" + (mpi.empty() ? "" : ", " + mpi) + (nccl.empty() ? "" : ", " + nccl);
}

std::string as_json() {
  json::Writer out(2);
  out.begin_object()
      .key("cpu")
      .value(train::cpu_name())
      .key("cores")
      .value(static_cast<int64_t>(std::thread::hardware_concurrency()));
  out.key("threads")
      .value(threads())
      .key("memory")
      .value(train::total_memory(Device::cpu()))
      .key("mpi")
      .value(ranks::mpi_version())
      .key("nccl")
      .value(ranks::nccl_version())
      .key("features")
      .begin_array();
  for (const std::string_view feature : cpu_feature_names()) out.value(feature);
  out.end_array();
  write_support(out, Device::cpu());
  out.key("gpus").begin_array();
  int index = 0;
  for (const backend::Gpu& gpu : backend::gpus()) {
    out.begin_object()
        .key("name")
        .value(gpu.name)
        .key("capability")
        .value(fmt::format("{}.{}", gpu.major, gpu.minor))
        .key("multiprocessors")
        .value(gpu.multiprocessors)
        .key("memory")
        .value(gpu.memory);
    write_support(out, Device::cuda(index++));
    out.end_object();
  }
  return out.end_array().end_object().text() + "\n";
}

std::string as_text() {
  std::string text = fmt::format(
      "cpu       {}\ncores     {}, {} threads in use\nmemory    {}\nfeatures  {}\nranks     {}\n\n"
      "matmuls on the CPU\n",
      train::cpu_name(), std::thread::hardware_concurrency(), threads(),
      train::bytes_text(train::total_memory(Device::cpu())), fmt::join(cpu_feature_names(), " "),
      ranks_text());
  text += support_text(Device::cpu());
  int index = 0;
  for (const backend::Gpu& gpu : backend::gpus()) {
    const Device device = Device::cuda(index++);
    text += fmt::format(
        "\n{}    {}, compute capability {}.{}, {} multiprocessors, {}\n\nmatmuls on {}\n",
        to_string(device), gpu.name, gpu.major, gpu.minor, gpu.multiprocessors,
        train::bytes_text(gpu.memory), to_string(device));
    text += support_text(device);
  }
  if (backend::gpus().empty()) text += fmt::format("\ngpu       none {}\n", no_gpu_reason());
  return text;
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "Print this machine's CPU, GPUs and the types they support");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON instead of text");
  command->callback([json] { fmt::print("{}", *json ? as_json() : as_text()); });
}

}  // namespace binade::cli
