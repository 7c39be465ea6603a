#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "binade/base/error.h"
#include "binade/base/parallel.h"
#include "binade/bench/gemm.h"
#include "binade/bench/machine.h"
#include "binade/bench/ops.h"
#include "binade/bench/resnet.h"
#include "binade/bench/step.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/keys.h"
#include "binade/cli/values.h"
#include "binade/train/config/component_options.h"
#include "binade/train/config/keys.h"
#include "binade/train/config/warnings.h"

namespace binade::cli {
namespace {

void add_cpu_time(CLI::App& command) {
  command.add_flag_callback(
      "--cpu-time", [] { bench::set_bench_clock(bench::Clock::cpu); },
      "Measure CPU time; with --threads 1 that is the time of an idle machine");
}

void add_step_counts(CLI::App& command, bench::StepBenchOptions& options) {
  const CLI::Validator count = whole_number(1, 1'000'000);
  command.add_option("--steps", options.steps, "Timed steps")
      ->transform(count)
      ->capture_default_str();
  command.add_option("--warmup", options.warmup, "Warmup steps before them")
      ->transform(count)
      ->capture_default_str();
}

struct StepArguments {
  std::shared_ptr<GivenOptions> keys = std::make_shared<GivenOptions>();
  std::vector<std::string> precisions;  // empty: fp32 and bf16, or fp8 with a recipe
  bench::StepBenchOptions options;
  bool json = false;

  std::vector<std::string> measured() const {
    if (!precisions.empty()) return precisions;
    const bool has_recipe = std::any_of(keys->begin(), keys->end(),
                                        [](const auto& key) { return key.first == "recipe"; });
    return has_recipe ? std::vector<std::string>{"fp8"} : std::vector<std::string>{"fp32", "bf16"};
  }
};

// Keys that affect the cost of a step.
bool affects_a_step(const train::Key& key) {
  constexpr std::string_view others[] = {"device",           "batch",       "accumulate",
                                         "memory",           "activations", "graph",
                                         "nondeterministic", "seed",        "threads"};
  return key.section == "model" || (key.section == "precision" && key.name != "precision") ||
         std::find(std::begin(others), std::end(others), key.name) != std::end(others);
}

train::Config step_config(const GivenOptions& given, const std::string& precision) {
  GivenOptions options = {{"preset", "small"}};
  options.insert(options.end(), given.begin(), given.end());
  options.emplace_back("precision", precision);
  return train::resolve({{}, options});
}

void run_step(const StepArguments& arguments) {
  std::vector<train::Config> configs;  // all are validated before the first one runs
  for (const std::string& precision : arguments.measured())
    configs.push_back(step_config(*arguments.keys, precision));
  train::check_device(configs[0]);
  print_warnings(train::without_effect(configs));
  if (configs[0].train.threads > 0) set_threads(static_cast<int>(configs[0].train.threads));
  std::vector<bench::StepTiming> timings;
  for (const train::Config& config : configs)
    timings.push_back(bench::bench_step(config, arguments.options));
  fmt::print("{}\n", arguments.json ? bench::to_json(configs[0], timings)
                                    : bench::to_table(configs[0], timings));
}

std::string all_precisions() {
  std::string names;
  for (const auto& [name, value] : train::precision_names)
    names += (names.empty() ? "" : ",") + std::string(name);
  return names;
}

void add_step(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("step", "Time training steps on random tokens, per precision");
  auto arguments = std::make_shared<StepArguments>();
  for (const train::Key& key : train::keys()) {
    if (affects_a_step(key)) add_key(*command, key, step_config({}, "bf16"), arguments->keys);
  }
  command->add_option("--precision", arguments->precisions, "Matmul precisions to measure")
      ->delimiter(',')
      ->type_name(all_precisions())
      ->default_str("fp32,bf16");
  add_step_counts(*command, arguments->options);
  add_cpu_time(*command);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_step(*arguments); });
}

struct ResNetArguments {
  bench::ResNetBench bench = {.options = {.warmup = 2, .steps = 10}};
  std::string device = "cpu";
  std::vector<std::string> precisions = {"fp32", "bf16"};
  int threads = 0;
  bool json = false;
};

void run_resnet(ResNetArguments& arguments) {
  arguments.bench.device = available_device(arguments.device);
  std::vector<train::Precision> precisions;  // all are read before the first one runs
  for (const std::string& text : arguments.precisions)
    precisions.push_back(train::parse_precision(text));
  if (arguments.threads > 0) set_threads(arguments.threads);
  std::vector<bench::ResNetTiming> timings;
  for (const train::Precision precision : precisions)
    timings.push_back(bench::bench_resnet(arguments.bench, precision));
  fmt::print("{}\n", arguments.json ? bench::to_json(arguments.bench, timings)
                                    : bench::to_table(arguments.bench, timings));
}

void add_resnet(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("resnet", "Time training steps on random images, per precision");
  auto arguments = std::make_shared<ResNetArguments>();
  command->add_option("--depth", arguments->bench.depth, "ResNet-18, 34, 50, 101 or 152")
      ->check(one_of({"18", "34", "50", "101", "152"}))
      ->type_name("INT")
      ->capture_default_str();
  command->add_option("--batch", arguments->bench.batch, "Images per step")
      ->transform(whole_number(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--image", arguments->bench.image, "Height and width of the images")
      ->transform(whole_number(32, 4096))
      ->capture_default_str();
  command->add_option("--device", arguments->device, "Device to run on: cpu, cuda or cuda:N")
      ->capture_default_str();
  command->add_option("--precision", arguments->precisions, "Precisions to measure")
      ->delimiter(',')
      ->type_name("fp32,bf16,fp16")
      ->default_str("fp32,bf16");
  command->add_option("--threads", arguments->threads, "CPU threads; 0: all")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
  add_step_counts(*command, arguments->bench.options);
  add_cpu_time(*command);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_resnet(*arguments); });
}

struct KernelArguments {
  std::string device = "cpu";
  std::vector<std::string> shapes;
  double seconds = 1;
  int threads = 0;
  bool json = false;
};

// "2048x768x256", m x n x k.
bench::GemmShape parse_shape(const std::string& text) {
  bench::GemmShape shape;
  int end = 0;
  constexpr int64_t most = 1 << 20;
  const int count = std::sscanf(text.c_str(), "%ldx%ldx%ld%n", &shape.m, &shape.n, &shape.k, &end);
  const bool whole = count == 3 && static_cast<size_t>(end) == text.size();
  if (!whole || std::min({shape.m, shape.n, shape.k}) < 1 ||
      std::max({shape.m, shape.n, shape.k}) > most) {
    fail("bench gemm", {.argument = "--shapes",
                        .expected = "MxNxK, each from 1 to 1048576, such as 2048x768x256",
                        .found = "'" + text + "'"});
  }
  return shape;
}

std::shared_ptr<KernelArguments> add_kernel_options(CLI::App& command) {
  auto arguments = std::make_shared<KernelArguments>();
  command.add_option("--device", arguments->device, "Device to run on: cpu, cuda or cuda:N")
      ->capture_default_str();
  command.add_option("--seconds", arguments->seconds, "Seconds per line of the table")
      ->check(real_number(0, 3600))
      ->capture_default_str();
  command.add_option("--threads", arguments->threads, "CPU threads; 0: all")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
  add_cpu_time(command);
  command.add_flag("--json", arguments->json, "Print JSON");
  return arguments;
}

void add_gemm(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "gemm", "FLOP/s of matmuls vs. the device's peak, and vs. OpenBLAS if it is installed");
  auto arguments = add_kernel_options(*command);
  command
      ->add_option("--shapes", arguments->shapes,
                   "Shapes to run; default: those of a GPT's training step")
      ->delimiter(',')
      ->type_name("MxNxK");
  command->callback([arguments] {
    if (arguments->threads > 0) set_threads(arguments->threads);
    std::vector<bench::GemmShape> shapes;
    for (const std::string& text : arguments->shapes) shapes.push_back(parse_shape(text));
    if (shapes.empty()) shapes = bench::default_gemm_shapes();
    const auto report =
        bench::bench_gemm(available_device(arguments->device), shapes, arguments->seconds);
    fmt::print("{}\n", arguments->json ? bench::to_json(report) : bench::to_table(report));
  });
}

void add_ops(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("ops", "Bandwidth of memory-bound kernels vs. a copy");
  auto arguments = add_kernel_options(*command);
  command->callback([arguments] {
    if (arguments->threads > 0) set_threads(arguments->threads);
    const Device device = available_device(arguments->device);
    const auto timings = bench::bench_ops(device, arguments->seconds);
    fmt::print("{}\n", arguments->json ? bench::to_json(device, timings)
                                       : bench::to_table(device, timings));
  });
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure speed and memory on this machine");
  command->require_subcommand(1);
  add_step(*command);
  add_resnet(*command);
  add_gemm(*command);
  add_ops(*command);
}

}  // namespace binade::cli
