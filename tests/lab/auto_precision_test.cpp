#include "binade/lab/auto_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "binade/base/random.h"
#include "binade/data/corpus.h"
#include "binade/data/tokens.h"
#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "lab/planted_run.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Text of 64 symbols. Two times out of three a symbol is determined by the previous one, by a rule
// that a narrow model can learn only with its MLP.
data::Tokens signs() {
  std::string text = "a";
  for (uint64_t i = 0; i < 20000; ++i) {
    const auto last = static_cast<unsigned char>(text.back());
    const uint32_t rule = random::bits(1, last, 0) % 64, any = random::bits(2, 0, i) % 64;
    text += static_cast<char>(' ' + (random::bits(3, 0, i) % 3 != 0 ? rule : any));
  }
  return data::Tokens::of_bytes(text);
}

// The validation loss after a run whose first MLP is hostile from the start.
double hostile_run(train::Config config, const std::string& precision, bool auto_precision,
                   const data::Tokens& tokens) {
  const testing::TemporaryFolder folder;
  config.precision.matmul = train::parse_precision(precision);
  config.precision.automatic = auto_precision;
  config.precision.recipe = amp::recipes::delayed();
  train::Trainer trainer(config);
  plant_outlier(trainer, 0);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, tokens, static_cast<int>(config.train.steps), &notes);
  for (const std::string& note : notes) std::printf("%s\n", note.c_str());
  EXPECT_EQ(doctor.plan().find("blocks.0.mlp.up") != nullptr, auto_precision);
  return trainer.evaluate(tokens).loss;
}

using Harm = std::array<double, 3>;

// A look with a given harm of the three matmuls, by the run's recipe and with finer scales.
LayerStats looked(const std::string& module, Harm harm, Harm finer = {1, 1, 1}) {
  return {.module = module,
          .forward = {.harm = harm[0], .finer_harm = finer[0]},
          .dgrad = {.harm = harm[1], .finer_harm = finer[1]},
          .wgrad = {.harm = harm[2], .finer_harm = finer[2]}};
}

TEST(AutoPrecisionRules, DecideByMediansWithHysteresis) {
  AutoPrecision rules;
  int64_t step = 0;
  const auto look = [&](Harm harm) { return rules.look({looked("a", harm)}, ++step); };
  constexpr Harm healthy = {0.02, 0.02, 0.02}, hostile = {0.02, 0.6, 0.02};
  for (int i = 0; i < 3; ++i) EXPECT_THAT(look(healthy), IsEmpty());
  EXPECT_THAT(look(hostile), IsEmpty());  // one unusual batch
  EXPECT_THAT(look(healthy), IsEmpty());
  EXPECT_THAT(look(hostile), ::testing::SizeIs(1));  // two of three
  const train::Promotion moved = *rules.plan().find("a");
  EXPECT_TRUE(!moved.forward && moved.dgrad && !moved.wgrad && !moved.moved_to);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(look(healthy), IsEmpty());
  EXPECT_THAT(look(healthy), ::testing::SizeIs(1));  // healthy for long enough
  EXPECT_EQ(rules.plan().find("a"), nullptr);
  for (int i = 0; i < 6; ++i) EXPECT_THAT(look({0.2, 0.2, 0.2}), IsEmpty());  // between the limits
}

// Finer scales where they mend a matmul, bf16 where they do not, each matmul by itself.
TEST(AutoPrecisionRules, PreferFinerScalesToBf16) {
  AutoPrecision rules;
  int64_t step = 0;
  const auto look_thrice = [&](Harm harm, Harm finer) {
    std::vector<train::Promotion> changes;
    for (int i = 0; i < 3; ++i) {
      const auto one = rules.look({looked("a", harm, finer)}, ++step);
      changes.insert(changes.end(), one.begin(), one.end());
    }
    return changes;
  };
  const auto first = look_thrice({0.6, 0.6, 0.02}, {0.01, 0.2, 0.01});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].moved_to, amp::recipes::row());
  EXPECT_TRUE(!first[0].forward && first[0].dgrad && !first[0].wgrad);
  EXPECT_THAT(to_text(first[0]), HasSubstr("a moves to the recipe row, dgrad to bf16"));
  amp::Recipe row = amp::recipes::row();
  row.matmuls.dgrad = false;
  EXPECT_EQ(first[0].recipe(amp::recipes::delayed()), row);
  // The layer is healthy with these, whatever the run's recipe would do to it.
  EXPECT_THAT(look_thrice({0.6, 0.6, 0.6}, {0.01, 0.6, 0.1}), IsEmpty());
  // Finer scales are of no use any more.
  const auto second = look_thrice({0.6, 0.6, 0.02}, {0.3, 0.6, 0.01});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_FALSE(second[0].moved_to);
  EXPECT_TRUE(second[0].forward && second[0].dgrad && !second[0].wgrad);
}

// In the run's formats and for its matmuls; scales that are finer than a tensor's are fine enough.
TEST(AutoPrecisionRules, TheFinerRecipeIsByRow) {
  EXPECT_EQ(finer_recipe(amp::recipes::delayed()), amp::recipes::row());
  EXPECT_EQ(finer_recipe(amp::recipes::current()), amp::recipes::row());
  for (const amp::Recipe* fine :
       {&amp::recipes::row(), &amp::recipes::block(), &amp::recipes::mx()})
    EXPECT_FALSE(finer_recipe(*fine)) << fine->name;
  EXPECT_EQ(finer_recipe(amp::parse_recipe(
                R"(delayed, history = 4, format = "e4m3", matmuls = ["forward", "wgrad"])")),
            amp::parse_recipe(R"(row, format = "e4m3", matmuls = ["forward", "wgrad"])"));
}

TEST(AutoPrecisionRules, MoveFromFineScalesToBf16) {
  AutoPrecision rules(amp::recipes::block());
  for (int64_t step = 1; step <= 3; ++step)
    rules.look({looked("a", {0.6, 0.02, 0.02}, {0, 0, 0})}, step);
  ASSERT_NE(rules.plan().find("a"), nullptr);
  EXPECT_FALSE(rules.plan().find("a")->moved_to);
  EXPECT_TRUE(rules.plan().find("a")->forward);
}

TEST(AutoPrecisionRules, KeepMatmulsInBf16WhileOthersFollow) {
  AutoPrecision rules;
  int64_t step = 0;
  for (int i = 0; i < 3; ++i) rules.look({looked("a", {0.6, 0.02, 0.02})}, ++step);
  // The first is no longer above the limit, but not healthy either.
  for (int i = 0; i < 3; ++i) rules.look({looked("a", {0.2, 0.6, 0.02})}, ++step);
  const train::Promotion moved = *rules.plan().find("a");
  EXPECT_TRUE(moved.forward && moved.dgrad && !moved.wgrad);
}

// A run with auto_precision.
struct AutoRun {
  train::PrecisionPlan plan;
  std::vector<PastLook> looks;
};

// Runs steps with auto_precision on a model that `prepare` may plant a fault in.
AutoRun auto_run(train::Config config, const std::function<void(train::Trainer&)>& prepare,
                 int steps) {
  const testing::TemporaryFolder folder;
  config.precision.automatic = true;
  config.precision.recipe = amp::recipes::delayed();
  train::Trainer trainer(config);
  prepare(trainer);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), steps);
  return {doctor.plan(), read_looks(folder / "layers.jsonl", steps)};
}

train::Config small_fp8() {
  train::Config config = train::small_config("fp8");
  config.model.width = 32;
  config.model.hidden = 128;
  config.train.steps = 40;
  return config;
}

// The largest median harm over three looks in a row, of any layer and matmul.
double largest_median(const std::vector<PastLook>& looks) {
  std::map<std::pair<std::string, size_t>, std::vector<double>> harms;
  for (const PastLook& look : looks) {
    for (const LayerStats& layer : look.layers) {
      const double of_matmuls[] = {layer.forward.harm, layer.dgrad.harm, layer.wgrad.harm};
      for (size_t i = 0; i < 3; ++i) harms[{layer.module, i}].push_back(of_matmuls[i]);
    }
  }
  double most = 0;
  for (const auto& [layer, values] : harms) {
    for (size_t i = 2; i < values.size(); ++i) {
      std::array<double, 3> last = {values[i - 2], values[i - 1], values[i]};
      std::sort(last.begin(), last.end());
      most = std::max(most, last[1]);
    }
  }
  return most;
}

TEST(AutoPrecisionText, SaysWhatMovesWhereAndWhy) {
  train::Promotion change{
      .module = "up", .step = 40, .harm = 0.987, .forward = true, .dgrad = false, .wgrad = true};
  EXPECT_EQ(to_text(change),
            "step 40: up moves to bf16 (forward, wgrad): the run's recipe loses 99% of its signal");
  change.moved_to = amp::recipes::row();
  EXPECT_EQ(
      to_text(change),
      "step 40: up moves to the recipe row, forward, wgrad to bf16: the run's recipe loses 99% "
      "of its signal");
  change.forward = change.wgrad = false;
  EXPECT_EQ(to_text(change),
            "step 40: up moves to the recipe row: the run's recipe loses 99% of its signal");
  change.moved_to.reset();
  change.harm = 0.02;
  EXPECT_EQ(to_text(change), "step 40: up moves back to the run's recipe: it loses 2% there");
}

// Rounding differs between CPUs, so a decision must not be a close one: healthy layers stay below a
// quarter of the limit (measured: at most 0.026).
TEST(AutoPrecision, MovesNothingInHealthyModels) {
  train::Config config = small_fp8();
  for (config.train.seed = 1; config.train.seed <= 20; ++config.train.seed) {
    const AutoRun run = auto_run(
        config, [](train::Trainer&) {}, 30);
    EXPECT_THAT(run.plan.layers, IsEmpty())
        << "seed " << config.train.seed << ": " << to_text(run.plan.layers[0]);
    EXPECT_GT(run.looks.size(), 3u);
    EXPECT_LT(largest_median(run.looks), AutoPrecision::max_harm / 4)
        << "seed " << config.train.seed;
  }
}

// Whether a planted layer was moved, and by a wide margin: three times the limit. e4m3 spans 2^18
// from its smallest number to its largest, so a factor of 1e5 between channels is a fault by
// degrees, with a harm of 0.1 to 0.4, and one of 1e7 loses all the rest.
bool clearly_found(const AutoRun& run, const std::string& layer) {
  const train::Promotion* found = run.plan.find(layer);
  return found != nullptr && found->harm > 3 * AutoPrecision::max_harm;
}

// Outlier weights in each kind of layer, a norm that scales one channel, and an embedding with a
// hot channel, which an RMS norm leaves in place; a layer norm would remove it with the mean.
TEST(AutoPrecision, FindsPlantedLayers) {
  train::Config config = small_fp8();
  for (config.train.seed = 1; config.train.seed <= 3; ++config.train.seed) {
    int found = 0;
    for (const int block : {0, 1}) {
      const std::string at = "blocks." + std::to_string(block) + ".";
      for (const char* layer : {"attention.qkv", "attention.out", "mlp.up", "mlp.down"}) {
        const auto outlier = [&](train::Trainer& trainer) {
          plant(trainer, at + layer + ".weight", 0, 1e5);
        };
        found += clearly_found(auto_run(config, outlier, 5), at + layer);
      }
    }
    const auto scaled_norm = [](train::Trainer& trainer) {
      plant(trainer, "blocks.1.norm2.weight", 3, 1e7);
    };
    found += clearly_found(auto_run(config, scaled_norm, 5), "blocks.1.mlp.up");
    const auto hot_embedding = [](train::Trainer& trainer) {
      for (int64_t token = 0; token < 256; ++token)
        plant(trainer, "embedding.weight", 32 * token + 5, 1e5);
    };
    train::Config llama = config;
    llama.model.family = *train::find_named(train::model_names, "llama");
    found += clearly_found(auto_run(llama, hot_embedding, 5), "blocks.0.attention.qkv");
    EXPECT_EQ(found, 10) << "seed " << config.train.seed;
  }
}

// An outlier that comes and goes: its layer moves, and back when it is healthy, with scales of its
// own from now on. Those from before the move would flush all weights to zero, for as many steps as
// the history is long.
TEST(AutoPrecision, ALayerThatRecoversMovesBackForGood) {
  const testing::TemporaryFolder folder;
  train::Config config = small_fp8();
  config.precision.automatic = true;
  config.precision.recipe = amp::parse_recipe("delayed, history = 1024");
  config.train.steps = 400;
  const std::string layer = "blocks.1.mlp.up";
  train::Trainer trainer(config);
  const double healthy_weight = to_vector(parameter(trainer, layer + ".weight"))[0];
  plant_outlier(trainer);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 5);
  ASSERT_NE(doctor.plan().find(layer), nullptr);
  plant(trainer, layer + ".weight", 0, healthy_weight);
  plant(trainer, layer + ".bias", 0, 0);
  // Six healthy looks, of which the last ones are 25 steps apart, and three more after them.
  take_steps(trainer, doctor, train::small_tokens(), 170);
  EXPECT_EQ(doctor.plan().find(layer), nullptr);
  ASSERT_EQ(doctor.plan().layers.size(), 2u) << to_text(doctor.plan().layers.back());
  for (const PastLook& look : read_looks(folder / "layers.jsonl", 175)) {
    if (look.step <= doctor.plan().layers[1].step) continue;
    const auto stats = std::find_if(look.layers.begin(), look.layers.end(),
                                    [&](const LayerStats& one) { return one.module == layer; });
    EXPECT_LT(stats->harm(), AutoPrecision::healthy_harm) << "step " << look.step;
  }
}

struct HostileLosses {
  double bf16, fp8, moved;  // moved: fp8 with --auto-precision
};

HostileLosses hostile_losses(const train::Config& config, const data::Tokens& tokens) {
  return {hostile_run(config, "bf16", false, tokens), hostile_run(config, "fp8", false, tokens),
          hostile_run(config, "fp8", true, tokens)};
}

TEST(AutoPrecision, TrainsAModelWithAHostileLayerAsBf16Does) {
  train::Config config = train::small_config();
  config.model.layers = 1;
  config.model.context = 16;
  config.train.batch = 16;
  config.train.steps = 300;
  config.train.warmup = 20;
  config.train.lr = 4e-3;
  config.run.eval_batches = 64;
  const HostileLosses losses = hostile_losses(config, signs());
  std::printf("bf16 %.4f, fp8 %.4f, with --auto-precision %.4f\n", losses.bf16, losses.fp8,
              losses.moved);
  EXPECT_GT(losses.fp8, 1.03 * losses.bf16);
  EXPECT_LT(losses.moved, 1.005 * losses.bf16);
}

// Real text. Seed noise is about 1%, so the results of three seeds are averaged.
TEST(AutoPrecisionSlow, TrainsOnRealTextAsBf16Does) {
  const std::string text(data::builtin_corpus());
  train::Config config = train::small_config();
  config.model.layers = 1;
  config.model.width = 64;
  config.model.heads = config.model.kv_heads = 4;
  config.model.hidden = 256;
  config.model.context = 64;
  config.train.batch = 16;
  config.train.steps = 800;
  config.train.warmup = 80;
  config.train.lr = 1.5e-3;
  config.run.eval_batches = 64;
  double excess = 0;
  for (config.train.seed = 1; config.train.seed <= 3; ++config.train.seed) {
    const HostileLosses losses = hostile_losses(config, data::Tokens::of_bytes(text));
    std::printf("seed %d: bf16 %.4f, fp8 %.4f, with --auto-precision %.4f\n",
                static_cast<int>(config.train.seed), losses.bf16, losses.fp8, losses.moved);
    EXPECT_GT(losses.fp8, 1.5 * losses.bf16);
    excess += (losses.moved / losses.bf16 - 1) / 3;
  }
  EXPECT_LT(excess, 0.01);
}

}  // namespace
}  // namespace binade::lab
