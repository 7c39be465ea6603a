#include "binade/lab/rank_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/lab/gpu_speed.h"
#include "binade/lab/step_time.h"
#include "binade/nn/language_model.h"
#include "binade/ranks/communicator.h"
#include "binade/ranks/partition.h"
#include "binade/train/config/component_options.h"
#include "binade/train/memory/forecast.h"
#include "binade/train/run/check.h"
#include "binade/train/run/progress.h"

namespace binade::lab {
namespace {

// How a run's parameters are shared, in the order of its optimizer.
struct SharedParameters {
  std::unique_ptr<nn::LanguageModel> model;
  std::vector<Tensor> parameters;
  ranks::Partition partition;
  std::vector<int64_t> block;  // of each parameter; -1: none
  int64_t last_block = -1;     // with parameters that are trained

  SharedParameters(const train::Config& config, int ranks)
      : model(train::make_model(config, {Device::meta(), train::placement(config).dtype})),
        parameters(train::parameters_in_order(config, *model)),
        partition(train::partition_of(config, *model, ranks)),
        block(parameters.size(), -1) {
    constexpr std::string_view prefix = "blocks.";
    for (const auto& [name, parameter] : model->named_parameters()) {
      if (!name.starts_with(prefix) || !parameter.requires_grad()) continue;
      const auto found = std::find_if(parameters.begin(), parameters.end(),
                                      [&p = parameter](const Tensor& x) { return x.same_as(p); });
      last_block = std::stoll(name.substr(prefix.size()));
      block[static_cast<size_t>(found - parameters.begin())] = last_block;
    }
  }

  int64_t owned_bytes(size_t parameter, int rank) const {
    return partition.owned(parameter, rank).size() *
           static_cast<int64_t>(size_of(parameters[parameter].dtype()));
  }
};

// Bytes of weights that a rank sends to each other one in a step: once after the update; in stage
// 3, those of blocks in each round for the forward and, except the last block's, the backward.
int64_t weight_bytes(const SharedParameters& shared, const train::Config& config, int rank) {
  const int64_t rounds = divide_up(config.train.accumulate, int64_t{shared.partition.ranks()});
  int64_t bytes = 0;
  for (size_t i = 0; i < shared.parameters.size(); ++i) {
    const bool is_gathered = config.ranks.stage == 3 && shared.block[i] >= 0;
    const int64_t times =
        !is_gathered ? 1 : rounds * (shared.block[i] == shared.last_block ? 1 : 2);
    bytes += times * shared.owned_bytes(i, rank);
  }
  return bytes;
}

// Peaks of a rank's steps, by stage: steps on the meta device, without the other ranks.
std::array<int64_t, 3> memory_by_stage(train::Config config, int rank, int ranks) {
  std::array<int64_t, 3> result = {};
  for (int stage = 1; stage <= 3; ++stage) {
    config.ranks.stage = stage;
    result[static_cast<size_t>(stage) - 1] =
        train::forecast_memory(config, ranks::simulated(rank, ranks)).peak;
  }
  return result;
}

}  // namespace

RankPlan plan_ranks(const train::Config& config, const Forecast& alone, double compute, int ranks,
                    const Network& network) {
  RankPlan plan{.ranks = ranks};
  const int64_t micros = config.train.accumulate;
  const int64_t rounds = divide_up(micros, ranks);
  plan.compute = compute * static_cast<double>(rounds) / static_cast<double>(micros);
  plan.idle = 1 - static_cast<double>(micros) / static_cast<double>(rounds * ranks);
  const auto tokens = static_cast<double>(train::step_tokens(config));
  if (ranks == 1) {
    plan.memory.fill(alone.peak);
    plan.tokens_per_second = tokens / compute;
    return plan;
  }
  const SharedParameters shared(config, ranks);
  const int64_t count = train::trained_parameters(*shared.model);
  const auto wire = static_cast<int64_t>(size_of(config.ranks.reduce_dtype));
  int owner = 0;  // of the most elements
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t own = shared.partition.owned_elements(rank);
    if (own > shared.partition.owned_elements(owner)) owner = rank;
    const int64_t leaves = divide_up(micros - rank, ranks);
    plan.bytes_sent =
        std::max(plan.bytes_sent,
                 leaves * (count - own) * wire + (ranks - 1) * weight_bytes(shared, config, rank));
  }
  plan.memory = memory_by_stage(config, owner, ranks);
  // What leaves the machine goes out beside what stays in it.
  const double near =
      static_cast<double>(std::min(network.per_node, ranks) - 1) / static_cast<double>(ranks - 1);
  const auto sent = static_cast<double>(plan.bytes_sent);
  plan.communication = std::max(sent * near / network.inside, sent * (1 - near) / network.between);
  plan.tokens_per_second = tokens / (plan.compute + plan.communication);
  return plan;
}

std::vector<RankPlan> plan_up_to(const train::Config& config, int most, const Network& network,
                                 const Gpu* gpu) {
  train::check_device(config);
  train::check_ranks(config, most);
  const train::Config planned = gpu != nullptr ? on_a_gpu(config) : config;
  const Forecast alone = forecast(planned);
  const auto tokens = static_cast<double>(train::step_tokens(config));
  const double compute = gpu != nullptr ? tokens / speed_on(*gpu, planned, alone).likely
                                        : step_seconds(alone, measure_machine(config));
  std::vector<RankPlan> plans;
  for (int ranks = 1; ranks < most; ranks *= 2)
    plans.push_back(plan_ranks(planned, alone, compute, ranks, network));
  plans.push_back(plan_ranks(planned, alone, compute, most, network));
  return plans;
}

namespace {

// Three digits of small numbers, all of large ones, and days beyond a day: "0.0392 s", "3,475 s",
// "3,362 d".
std::string seconds_text(double seconds) {
  constexpr double day = 86400;
  if (seconds >= day)
    return (seconds < 99.5 * day ? fmt::format("{:.3g}", seconds / day)
                                 : grouped(std::llround(seconds / day))) +
           " d";
  return (seconds < 999.5 ? fmt::format("{:.3g}", seconds) : grouped(std::llround(seconds))) + " s";
}

}  // namespace

std::string rank_plan_text(const std::vector<RankPlan>& plans, int width) {
  std::string text =
      fmt::format("{:>5}{:>8}{:>8}{:>8}{:>10}{:>13}{:>10}{:>6}{:>11}\n", "ranks", "stage 1",
                  "stage 2", "stage 3", "sent/step", "compute", "network", "idle", "tokens/s");
  double best = 0;
  for (const RankPlan& plan : plans) best = std::max(best, plan.tokens_per_second);
  constexpr int bar_width = 24;
  // Behind the table, which ends with a line break, and two spaces.
  const bool has_bars = std::cmp_less_equal(text.size() + 1 + bar_width, width);
  for (const RankPlan& plan : plans) {
    text +=
        fmt::format("{:>5}{:>8}{:>8}{:>8}{:>10}{:>13}{:>10}{:>5.0f}%{:>11}", plan.ranks,
                    train::bytes_text(plan.memory[0]), train::bytes_text(plan.memory[1]),
                    train::bytes_text(plan.memory[2]), train::bytes_text(plan.bytes_sent),
                    seconds_text(plan.compute), seconds_text(plan.communication), 100 * plan.idle,
                    plan.tokens_per_second < 10 ? fmt::format("{:.2g}", plan.tokens_per_second)
                                                : grouped(std::llround(plan.tokens_per_second)));
    const auto bar = static_cast<size_t>(std::lround(bar_width * plan.tokens_per_second / best));
    text += (has_bars ? "  " + std::string(bar, '#') : "") + "\n";
  }
  return text;
}

}  // namespace binade::lab
