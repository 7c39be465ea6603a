#include "binade/lab/plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <limits>
#include <memory>
#include <optional>

#include "binade/amp/capability.h"
#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/base/terminal.h"
#include "binade/base/text.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/values.h"
#include "binade/lab/gpu_speed.h"
#include "binade/lab/rank_plan.h"
#include "binade/train/config/component_options.h"
#include "binade/train/memory/device_memory.h"
#include "binade/train/run/progress.h"

namespace binade::cli {
namespace {

// A fraction of the CPUs that is no background noise.
constexpr double busy = 0.15;

struct PlanArguments : ConfigArguments {
  int ranks = 0;  // 0: not asked for
  lab::Network network;
  bool json = false;
  std::string gpu;    // its name; empty: this machine
  double tflops = 0;  // of a GPU without a name; 0: none

  std::optional<lab::Gpu> other_gpu() const {
    if (!gpu.empty()) return lab::find_gpu(gpu);
    if (tflops > 0) return lab::gpu_of_tflops(tflops);
    return {};
  }
};

void print_json(const lab::Plan& plan, int64_t memory) {
  json::Writer out(2);
  out.begin_object().key("memory").value(memory).key("rows").begin_array();
  for (const lab::PlanRow& row : plan.rows) {
    out.begin_object()
        .key("name")
        .value(row.name)
        .key("precision")
        .value(train::name(row.config.precision.matmul));
    out.key("params")
        .value(train::name(row.config.precision.params))
        .key("recompute")
        .value(row.config.train.activations == nn::Activations::recompute());
    out.key("bytes").begin_object();
    for (int i = 0; i < memory::category_count; ++i)
      out.key(memory::name(static_cast<memory::Category>(i)))
          .value(row.forecast.at_peak[static_cast<size_t>(i)]);
    out.end_object().key("masters").value(row.forecast.masters);
    out.key("logits").value(row.forecast.logits);
    out.key("weight_copies").value(row.forecast.weight_copies);
    out.key("statistics").value(row.forecast.statistics);
    out.key("snapshot").value(row.forecast.snapshot);
    out.key("step_peak").value(row.forecast.peak);
    out.key("peak").value(row.forecast.run_peak()).key("rss");
    row.process > 0 ? out.value(row.process) : out.value(nullptr);
    out.key("largest_batch").value(row.largest_batch);
    out.key("tokens_per_second").value(row.speed.likely);
    out.key("tokens_per_second_range").begin_array();
    out.value(row.speed.low).value(row.speed.high).end_array().end_object();
  }
  out.end_array().key("other_load").value(plan.other_load);
  fmt::print("{}\n", out.end_object().text());
}

// The precisions that the device multiplies in a wider type.
std::string emulated_precisions(Device device) {
  std::string names;
  const std::pair<DType, train::Precision> types[] = {{DType::bf16, train::Precision::bf16},
                                                      {DType::f16, train::Precision::fp16},
                                                      {DType::e4m3, train::Precision::quantized}};
  for (const auto& [type, precision] : types) {
    if (amp::matmul_support(type, device) == amp::Support::native) continue;
    names += (names.empty() ? "" : " and ") + std::string(train::name(precision));
  }
  return names;
}

// The columns to print in: files have lines of any length.
int text_width() {
  return terminal::is_terminal(stdout) ? terminal::width(stdout) : std::numeric_limits<int>::max();
}

// What the speeds of a plan are.
std::string source_of_speed(const train::Config& config, const std::optional<lab::Gpu>& gpu) {
  if (gpu)
    return fmt::format(
        "follow\nfrom the data sheet of {} and the utilization that was measured on an H200",
        gpu->name);
  return backend::capabilities(train::device_of(config)).is_asynchronous
             ? "are\nbelow an upper bound: a roofline of this machine, measured now"
             : "follow\nfrom steps of a small model of this kind on this machine, measured now";
}

void print_text(const train::Config& config, const lab::Plan& plan, int64_t memory,
                const std::optional<lab::Gpu>& gpu) {
  const std::vector<lab::PlanRow>& rows = plan.rows;
  fmt::print(
      "{} parameters\n{} x {} sequences of {} tokens per step, {} of memory\n\n{}\n"
      "Bytes are at the peak of a step; logits: those of the loss; copies: 16-bit\n"
      "weights of autocast; snapshot: what a checkpoint is written from. The peak is\n"
      "that of the whole run; RSS: with the program, its text and the blocks that the\n"
      "allocator keeps. 'batch' is the largest that fits. Tokens per second {}.\n",
      grouped(rows.front().forecast.parameter_count), config.train.accumulate, config.train.batch,
      config.model.context, train::bytes_text(memory), lab::plan_text(rows, memory, text_width()),
      source_of_speed(config, gpu));
  if (plan.other_load > busy)
    fmt::print(
        "Other processes used {:.0f}% of the CPUs meanwhile: on an idle machine it is faster.\n",
        100 * plan.other_load);
  if (gpu) return;
  const std::string emulated = emulated_precisions(train::device_of(config));
  if (!emulated.empty())
    fmt::print(
        "This machine emulates {}: the numerics are right, but\nmatmuls run in a wider type, which "
        "saves no time.\n",
        emulated);
}

void print_json(const std::vector<lab::RankPlan>& plans) {
  json::Writer out(2);
  out.begin_object().key("ranks").begin_array();
  for (const lab::RankPlan& plan : plans) {
    out.begin_object().key("ranks").value(plan.ranks);
    out.key("memory").begin_array();
    for (const int64_t bytes : plan.memory) out.value(bytes);
    out.end_array();
    out.key("bytes_sent").value(plan.bytes_sent);
    out.key("compute").value(plan.compute).key("communication").value(plan.communication);
    out.key("idle").value(plan.idle).key("tokens_per_second").value(plan.tokens_per_second);
    out.end_object();
  }
  fmt::print("{}\n", out.end_array().end_object().text());
}

void plan_ranks(const train::Config& config, const PlanArguments& arguments) {
  const std::optional<lab::Gpu> gpu = arguments.other_gpu();
  lab::Network network = arguments.network;
  network.inside *= 1e9;
  network.between *= 1e9;
  const std::vector<lab::RankPlan> plans =
      lab::plan_up_to(config, arguments.ranks, network, gpu ? &*gpu : nullptr);
  if (arguments.json) return print_json(plans);
  fmt::print(
      "{} micro-batches of {} x {} tokens per step\n{} of a machine, {} GB/s inside of it and {} "
      "GB/s "
      "out of it\n\n{}\n"
      "Memory is that of one rank at the peak of its steps. Sent bytes and times are\n"
      "those of stage {}. Compute follows from {}; no\n"
      "overlap with the network is assumed.\n",
      config.train.accumulate, config.train.batch, config.model.context,
      network.per_node == 1 ? "one rank" : fmt::format("{} ranks", network.per_node),
      network.inside / 1e9, network.between / 1e9, lab::rank_plan_text(plans, text_width()),
      config.ranks.stage,
      gpu ? "the data sheet of " + gpu->name : "measurements of this machine, now");
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Forecast the memory and speed of a training run without allocating anything");
  auto arguments = std::make_shared<PlanArguments>();
  const CLI::Validator most = whole_number(1, 4096);
  auto* ranks = command
                    ->add_option("--ranks", arguments->ranks,
                                 "Cost of 1, 2, 4, ... and this many ranks instead")
                    ->transform(most);
  command->add_option("--per-node", arguments->network.per_node, "Ranks of a machine; default: 1")
      ->transform(most)
      ->needs(ranks);
  arguments->network.inside = 100;
  arguments->network.between = 12;
  command
      ->add_option("--nvlink", arguments->network.inside,
                   "GB/s from a rank to others of its machine; default: 100")
      ->check(real_number(1e-3, 1e6))
      ->needs(ranks);
  command
      ->add_option("--nic", arguments->network.between,
                   "GB/s from a rank to other machines; default: 12")
      ->check(real_number(1e-3, 1e6))
      ->needs(ranks);
  auto* gpu = command->add_option("--gpu", arguments->gpu,
                                  "Forecast for another machine's GPU: H100, H200, A100, RTX 4090");
  command
      ->add_option("--tflops", arguments->tflops,
                   "The same for a GPU of this many dense bf16 TFLOP/s")
      ->check(real_number(1e-3, 1e6))
      ->excludes(gpu);
  command->add_flag("--json", arguments->json, "Print JSON instead of text");
  add_configuration(*command, *arguments);
  command->callback([arguments] {
    const train::Config config = configuration(*arguments);
    if (arguments->ranks > 0) return plan_ranks(config, *arguments);
    const std::optional<lab::Gpu> gpu = arguments->other_gpu();
    const int64_t memory = config.train.memory.kind == train::MemoryBudget::Kind::bytes
                               ? config.train.memory.bytes
                           : gpu && gpu->memory > 0 ? gpu->memory
                                                    : train::total_memory(train::device_of(config));
    const lab::Plan plan = lab::plan(config, memory, gpu ? &*gpu : nullptr);
    if (arguments->json) return print_json(plan, memory);
    print_text(config, plan, memory, gpu);
  });
}

}  // namespace binade::cli
