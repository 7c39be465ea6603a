#include "binade/lab/rank_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/base/division.h"
#include "binade/base/error.h"
#include "binade/base/text.h"
#include "binade/dist/partition.h"
#include "binade/nn/language_model.h"
#include "binade/train/config/component_options.h"
#include "binade/train/progress.h"

namespace binade::lab {
namespace {

using memory::Category;

// In the optimizer's order, and their indices in the order of a forward: those of a Trainer.
dist::Partition partition_of(const train::Config& config, int ranks) {
  const nn::LanguageModel model(train::model_config(config), {Device::meta(), DType::f32});
  return {train::parameters_in_order(config, model), ranks, model.parameters()};
}

}  // namespace

RankPlan plan_ranks(const train::Config& config, const Forecast& alone, double compute, int ranks,
                    const Network& network) {
  RankPlan plan{.ranks = ranks};
  const int64_t micros = config.accumulate;
  const int64_t rounds = divide_up(micros, ranks);
  plan.compute = compute * static_cast<double>(rounds) / static_cast<double>(micros);
  plan.idle = 1 - static_cast<double>(micros) / static_cast<double>(rounds * ranks);
  const auto tokens = static_cast<double>(micros * config.batch * config.context);
  if (ranks == 1) {
    plan.memory = {alone.peak, alone.peak};
    plan.tokens_per_second = tokens / compute;
    return plan;
  }
  const dist::Partition partition = partition_of(config, ranks);
  const int64_t count = alone.parameter_count;
  const auto wire = static_cast<int64_t>(size_of(config.reduce_dtype)),
             stored = static_cast<int64_t>(size_of(train::placement(config).dtype));
  int64_t owned = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t own = partition.owned_elements(rank);
    owned = std::max(owned, own);
    const int64_t leaves = divide_up(micros - rank, ranks);
    plan.bytes_sent =
        std::max(plan.bytes_sent, leaves * (count - own) * wire + own * (ranks - 1) * stored);
  }
  // Buffers of a bucket: one sent and one that arrives.
  const int64_t buffers = 2 * partition.largest_bucket() * wire;
  const auto shard = [&](int64_t bytes) {
    return static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(owned) /
                                static_cast<double>(count));
  };
  const int64_t whole = 4 * count;  // f32 gradients
  const int64_t rest = alone.peak - alone.of(Category::gradients) - alone.of(Category::optimizer);
  const int64_t stage2 = rest + shard(whole) + shard(alone.of(Category::optimizer)) + buffers;
  plan.memory = {stage2 + whole, stage2};
  // What leaves the machine goes out beside what stays in it.
  const double near =
      static_cast<double>(std::min(network.per_node, ranks) - 1) / static_cast<double>(ranks - 1);
  const auto sent = static_cast<double>(plan.bytes_sent);
  plan.communication = std::max(sent * near / network.inside, sent * (1 - near) / network.between);
  plan.tokens_per_second = tokens / (plan.compute + plan.communication);
  return plan;
}

std::vector<RankPlan> plan_up_to(const train::Config& config, int most, const Network& network) {
  if (most > config.accumulate) {
    fail("plan",
         {.argument = "--ranks",
          .expected = fmt::format("at most {}, the micro-batches of a step", config.accumulate),
          .found = std::to_string(most),
          .hint = fmt::format("--accumulate {}", most)});
  }
  const Forecast alone = forecast(config);
  const double compute = step_seconds(alone, measure_machine(config));
  std::vector<RankPlan> plans;
  for (int ranks = 1; ranks < most; ranks *= 2)
    plans.push_back(plan_ranks(config, alone, compute, ranks, network));
  plans.push_back(plan_ranks(config, alone, compute, most, network));
  return plans;
}

std::string rank_plan_text(const std::vector<RankPlan>& plans) {
  std::string text =
      fmt::format("{:>5}  {:>10}  {:>10}  {:>10}  {:>9}  {:>9}  {:>5}  {:>12}\n", "ranks",
                  "stage 1", "stage 2", "sent/step", "compute", "network", "idle", "tokens/s");
  double best = 0;
  for (const RankPlan& plan : plans) best = std::max(best, plan.tokens_per_second);
  constexpr double bar_width = 24;
  for (const RankPlan& plan : plans) {
    const auto bar = static_cast<size_t>(std::lround(bar_width * plan.tokens_per_second / best));
    text += fmt::format(
        "{:>5}  {:>10}  {:>10}  {:>10}  {:>7.3g} s  {:>7.3g} s  {:>4.0f}%  {:>12}  {}\n",
        plan.ranks, train::bytes_text(plan.memory[0]), train::bytes_text(plan.memory[1]),
        train::bytes_text(plan.bytes_sent), plan.compute, plan.communication, 100 * plan.idle,
        grouped(static_cast<int64_t>(plan.tokens_per_second)), std::string(bar, '#'));
  }
  return text;
}

}  // namespace binade::lab
