#include "binade/lab/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/base/random.h"
#include "binade/data/batches.h"
#include "binade/data/tokens.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/config/cured.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "lab/planted_run.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Doctor, DiagnosesAWeightThatOverflowsInF16) {
  const testing::TemporaryFolder folder;
  train::Trainer trainer(train::small_config("fp16"));
  plant(trainer, "blocks.1.mlp.up.weight", 5, 3e5);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, train::small_tokens(), 4, &notes);
  ASSERT_EQ(doctor.diagnoses().size(), 1u);  // once, though every step is skipped
  const Diagnosis& found = doctor.diagnoses()[0];
  EXPECT_EQ(found.finding.op, "linear");
  EXPECT_EQ(found.finding.module, "blocks.1.mlp.up");
  EXPECT_EQ(found.finding.origin, Origin::cast);
  EXPECT_EQ(found.finding.first.index, Shape({0, 5}));
  EXPECT_EQ(found.finding.scale, 65536);
  EXPECT_EQ(found.verdict, Verdict::range);
  EXPECT_THAT(notes, ::testing::Contains(HasSubstr("verdict: range")));
  EXPECT_THAT(testing::content_of(folder / "doctor.txt"), HasSubstr("blocks.1.mlp.up"));
}

TEST(Doctor, FindsNonFiniteWeights) {
  for (const char* precision : {"fp32", "bf16", "fp8"}) {
    const testing::TemporaryFolder folder;
    train::Config config = train::small_config(precision);
    config.train.activations =
        nn::Activations::recompute(config.precision.matmul == train::Precision::bf16);
    config.train.accumulate = 2;
    train::Trainer trainer(config);
    plant(trainer, "blocks.0.attention.out.weight", 3, std::numeric_limits<double>::quiet_NaN());
    Doctor doctor;
    doctor.begin(trainer, folder.path());
    take_steps(trainer, doctor, train::small_tokens(), 1);
    ASSERT_EQ(doctor.diagnoses().size(), 1u) << precision;
    const Diagnosis& found = doctor.diagnoses()[0];
    EXPECT_EQ(found.finding.module, "blocks.0.attention.out") << precision;
    EXPECT_EQ(found.verdict, Verdict::state) << precision;
    EXPECT_THAT(found.finding.tensor, HasSubstr("blocks.0.attention.out.weight"));
  }
}

// A weight of a symbol that only the third batch holds: the replay must take that very batch.
TEST(Doctor, ReplaysTheBatchThatWentWrong) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config();
  config.model.family = *train::find_named(train::model_names, "llama");  // its head is not tied
  std::string bytes;
  for (uint64_t i = 0; i < 1000; ++i) bytes += static_cast<char>(random::bits(1, 2, i) % 256);
  const data::Tokens tokens = data::Tokens::of_bytes(bytes);
  const auto symbols = [&](int64_t step) {
    const data::Batch batch =
        data::training_batch(tokens, {config.train.batch, config.model.context},
                             static_cast<uint64_t>(config.train.seed), step, 0);
    const std::vector<double> values = to_vector(batch.tokens);
    return std::set<double>(values.begin(), values.end());
  };
  std::set<double> only = symbols(2);
  for (const int64_t step : {0, 1, 3}) {
    for (const double symbol : symbols(step)) only.erase(symbol);
  }
  ASSERT_FALSE(only.empty());
  train::Trainer trainer(config);
  plant(trainer, "embedding.weight", static_cast<int64_t>(*only.begin()) * config.model.width + 3,
        std::numeric_limits<double>::quiet_NaN());
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, tokens, 2);
  EXPECT_THAT(doctor.diagnoses(), IsEmpty());
  take_steps(trainer, doctor, tokens, 1);
  ASSERT_EQ(doctor.diagnoses().size(), 1u);
  EXPECT_EQ(doctor.diagnoses()[0].finding.op, "embedding");
}

// One diagnosis for each series of bad steps.
TEST(Doctor, DiagnosesAgainAfterHealthySteps) {
  const testing::TemporaryFolder folder;
  train::Trainer trainer(train::small_config());
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  const double healthy = parameter(trainer, "blocks.0.norm1.weight").data<float>()[2];
  for (size_t series = 1; series <= 2; ++series) {
    plant(trainer, "blocks.0.norm1.weight", 2, std::numeric_limits<double>::infinity());
    take_steps(trainer, doctor, train::small_tokens(), 2);
    EXPECT_EQ(doctor.diagnoses().size(), series);
    plant(trainer, "blocks.0.norm1.weight", 2, healthy);
    take_steps(trainer, doctor, train::small_tokens(), 1);
    EXPECT_EQ(doctor.diagnoses().size(), series);
  }
}

// Values leave f16's range because the weights grew: f32 would only hide it for a while.
TEST(Doctor, KnowsDivergenceFromRange) {
  for (const int layers : {1, 3}) {
    const testing::TemporaryFolder folder;
    train::Config config = train::small_config("fp16");
    config.model.layers = layers;
    config.train.lr = 30;
    train::Trainer trainer(config);
    Doctor doctor;
    doctor.begin(trainer, folder.path());
    take_steps(trainer, doctor, train::small_tokens(), 8);
    ASSERT_FALSE(doctor.diagnoses().empty()) << layers;
    EXPECT_EQ(doctor.diagnoses()[0].verdict, Verdict::divergence) << layers;
  }
}

// What follows a divergence is not examined for another cause.
TEST(Doctor, NamesTheFirstCause) {
  const testing::TemporaryFolder folder;
  train::Trainer trainer(train::small_config("fp32"));
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 2);
  doctor.note_alarm({train::Cause::divergence, 2, "the loss is 900", "lower --lr"});
  plant(trainer, "blocks.0.norm1.weight", 2, std::numeric_limits<double>::infinity());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, train::small_tokens(), 2, &notes);
  EXPECT_THAT(doctor.diagnoses(), IsEmpty());
  EXPECT_THAT(notes, ::testing::ElementsAre(HasSubstr("follows that of step 2")));
  EXPECT_THAT(testing::content_of(folder / "doctor.txt"),
              ::testing::StartsWith("watch, step 2: divergence: the loss is 900; lower --lr\n"));
}

// FP8 harms a layer by an outlier; with auto_precision the layer moves instead.
TEST(Doctor, SaysThatFp8HarmsALayer) {
  for (const bool planted : {true, false}) {
    const testing::TemporaryFolder folder;
    train::Config config = train::small_config("fp8");
    config.run.layer_stats = 2;
    train::Trainer trainer(config);
    if (planted) plant(trainer, "blocks.1.mlp.down.weight", 0, 1e5);
    Doctor doctor;
    doctor.begin(trainer, folder.path());
    std::vector<std::string> notes;
    take_steps(trainer, doctor, train::small_tokens(), 9, &notes);
    if (!planted) {
      EXPECT_THAT(notes, IsEmpty());
      continue;
    }
    ASSERT_EQ(notes.size(), 1u);  // once
    EXPECT_THAT(notes[0], HasSubstr("step 4: harm: FP8 loses "));
    EXPECT_THAT(notes[0], HasSubstr("of blocks.1.mlp.down"));
    EXPECT_THAT(notes[0], HasSubstr("--auto-precision"));
    EXPECT_THAT(testing::content_of(folder / "doctor.txt"), HasSubstr("watch, step 4: harm: "));
  }
}

// Runs may be shorter than the interval of layer statistics.
TEST(Doctor, LooksForHarmInTheFirstSteps) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp8");
  config.run.layer_stats = 100;
  train::Trainer trainer(config);
  plant(trainer, "blocks.1.mlp.down.weight", 0, 1e5);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, train::small_tokens(), 9, &notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("step 8: harm: FP8 loses "));
}

// A NaN may have a sign, of which nobody makes anything.
TEST(Doctor, PrintsNanWithoutItsSign) {
  const Finding finding{
      .op = "linear",
      .tensor = "result",
      .first = {.index = {0}, .value = -std::numeric_limits<double>::quiet_NaN(), .count = 1}};
  EXPECT_THAT(to_text(finding), HasSubstr("first non-finite value: nan at"));
  Finding infinite = finding;
  infinite.first.value = -std::numeric_limits<double>::infinity();
  EXPECT_THAT(to_text(infinite), HasSubstr("first non-finite value: -inf at"));
}

// The loss scaler explains the first skips of a scale that is too high.
TEST(Doctor, IgnoresSkipsThatTheScalerExplains) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp16");
  config.precision.scale_init = 0x1p40;
  train::Trainer trainer(config);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 2);
  EXPECT_THAT(doctor.diagnoses(), IsEmpty());
  take_steps(trainer, doctor, train::small_tokens(), 1);
  ASSERT_EQ(doctor.diagnoses().size(), 1u);
  EXPECT_EQ(doctor.diagnoses()[0].verdict, Verdict::loss_scale);
  EXPECT_LT(doctor.diagnoses()[0].largest_scale, 0x1p38);
  EXPECT_GT(doctor.diagnoses()[0].largest_scale, 1);
}

// Advice as a user follows it: its TOML is added to the configuration.
train::Config with(const train::Config& config, const Cure& cure) {
  const train::Config changes =
      train::resolve_text("[train]\ndevice = \"cpu\"\n" + cure.toml(), "cure.toml");
  train::Config result = config;
  if (cure.autocast_type) result.precision.matmul = changes.precision.matmul;
  if (cure.scale) result.precision.scale_init = changes.precision.scale_init;
  result.precision.overrides = changes.precision.overrides;
  return result;
}

// Two weights that overflow in f16, also with a residual stream in f16, which f32 ops refuse.
TEST(Doctor, CuresAnOverflowOfTwoLayers) {
  for (const bool residual : {false, true}) {
    const testing::TemporaryFolder folder;
    train::Config config = train::small_config("fp16");
    if (residual) config.precision.residual = DType::f16;
    const auto planted = [](const train::Config& made_of) {
      auto trainer = std::make_unique<train::Trainer>(made_of);
      plant(*trainer, "blocks.0.mlp.up.weight", 5, 3e5);
      plant(*trainer, "blocks.1.attention.out.weight", 7, 1e5);
      return trainer;
    };
    const auto trainer = planted(config);
    Doctor doctor;
    doctor.begin(*trainer, folder.path());
    take_steps(*trainer, doctor, train::small_tokens(), 1);
    ASSERT_EQ(doctor.diagnoses().size(), 1u);
    const Diagnosis& found = doctor.diagnoses()[0];
    EXPECT_EQ(found.verdict, Verdict::range) << to_text(found);
    EXPECT_EQ(found.finding.module, "blocks.0.mlp.up") << to_text(found);
    EXPECT_THAT(found.finding.tensor, HasSubstr("blocks.0.mlp.up.weight"));
    EXPECT_TRUE(found.cure || residual) << to_text(found);
    if (!found.cure) continue;  // an f16 residual stream cannot hold the values
    EXPECT_TRUE(std::isfinite(planted(with(config, *found.cure))->step(train::small_tokens()).loss))
        << to_text(found);
  }
}

// A weight whose products only some batches take out of f16's range: the cure must hold for those
// that follow, too.
TEST(Doctor, CuresTheStepsThatFollow) {
  for (const char* weight : {"blocks.0.mlp.up.weight", "blocks.1.mlp.up.weight"}) {
    const testing::TemporaryFolder folder;
    train::Config config = train::small_config("fp16");
    config.model.family = train::ModelFamily::llama;
    config.train.steps = 50;
    const auto planted = [weight](const train::Config& made_of) {
      auto trainer = std::make_unique<train::Trainer>(made_of);
      plant(*trainer, weight, 5, 3e5);
      return trainer;
    };
    const auto trainer = planted(config);
    Doctor doctor;
    doctor.begin(*trainer, folder.path());
    take_steps(*trainer, doctor, train::small_tokens(), 1);
    ASSERT_EQ(doctor.diagnoses().size(), 1u);
    const Diagnosis& found = doctor.diagnoses()[0];
    ASSERT_TRUE(found.cure) << to_text(found);
    EXPECT_EQ(found.cure->held, 9);
    EXPECT_EQ(found.cure->batches, 9);
    const auto cured = planted(with(config, *found.cure));
    for (int i = 0; i < 50; ++i)
      EXPECT_TRUE(std::isfinite(cured->step(train::small_tokens()).loss));
    // Gradients behind such a weight grow, too: the scaler follows them down.
    EXPECT_LT(cured->skipped(), 20) << to_text(found);
  }
}

// The file is the first cure of the run; a resumed run that takes its step again finds it anew.
TEST(Doctor, KeepsTheFirstCureAsSettings) {
  const testing::TemporaryFolder folder;
  const io::Path cure = folder.path() / "cure.toml";
  train::Trainer trainer(train::small_config("fp16"));
  plant(trainer, "blocks.1.mlp.up.weight", 5, 3e5);
  {
    Doctor doctor;
    doctor.begin(trainer, folder.path());
    EXPECT_FALSE(cure.exists());
    std::vector<std::string> notes;
    take_steps(trainer, doctor, train::small_tokens(), 3, &notes);
    ASSERT_TRUE(doctor.diagnoses().size() == 1 && doctor.diagnoses()[0].cure);
    const std::string text = testing::content_of(folder / "cure.toml");
    EXPECT_THAT(text, ::testing::StartsWith("# doctor, step 1: finite on 9 of 9 batches"));
    EXPECT_THAT(text, ::testing::EndsWith(doctor.diagnoses()[0].cure->toml()));
    EXPECT_THAT(notes, ::testing::Contains(HasSubstr("train --cure ")));
    EXPECT_EQ(train::resolve_cured({"", {{"device", "cpu"}}}, cure).precision.overrides,
              with(train::small_config("fp16"), *doctor.diagnoses()[0].cure).precision.overrides);
  }
  Doctor later;
  later.begin(trainer, folder.path());
  EXPECT_TRUE(cure.exists());
  train::Trainer earlier(train::small_config("fp16"));
  Doctor again;
  again.begin(earlier, folder.path());
  EXPECT_FALSE(cure.exists());
}

// A scale so low that f16 has no gradients left: the run would do nothing, silently.
TEST(Doctor, FindsGradientsThatUnderflow) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp16");
  config.precision.scale_init = 1e-6;
  train::Trainer trainer(config);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, train::small_tokens(), 3, &notes);
  ASSERT_EQ(doctor.diagnoses().size(), 1u);
  const Diagnosis& found = doctor.diagnoses()[0];
  EXPECT_EQ(found.verdict, Verdict::underflow) << to_text(found);
  EXPECT_EQ(found.finding.direction, Direction::backward);
  EXPECT_THAT(notes[0], HasSubstr("verdict: underflow"));
  std::istringstream lines(notes[0]);
  for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 80u) << line;
  ASSERT_TRUE(found.cure && found.cure->scale) << to_text(found);
  train::Trainer cured(with(config, *found.cure));
  EXPECT_GT(cured.step(train::small_tokens()).gradient_norm, 0.1);
}

// A learning rate of 3: losses rise, then f16 overflows. Another precision would not help.
TEST(Doctor, TellsDivergenceFromPrecision) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp16");
  config.train.lr = 3;
  config.train.clip = 0;
  config.train.steps = 80;
  train::Trainer trainer(config);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 40);
  // The loss has left its minimum by now; a weight that overflows shows it.
  plant(trainer, "blocks.1.mlp.up.weight", 5, 3e5);
  take_steps(trainer, doctor, train::small_tokens(), 4);
  ASSERT_FALSE(doctor.diagnoses().empty());
  EXPECT_EQ(doctor.diagnoses().back().verdict, Verdict::divergence)
      << to_text(doctor.diagnoses().back());
}

TEST(Doctor, ExplainsALossThatJumps) {
  const testing::TemporaryFolder folder;
  train::Trainer trainer(train::small_config());
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  std::vector<std::string> notes;
  take_steps(trainer, doctor, train::small_tokens(), 25, &notes);
  EXPECT_THAT(notes, IsEmpty());
  {
    const NoGrad no_grad;
    const Tensor x = parameter(trainer, "norm.weight");
    fill_(x, 1000);
  }
  take_steps(trainer, doctor, train::small_tokens(), 1, &notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("the loss jumped from"));
  EXPECT_THAT(notes[0], HasSubstr("verdict: divergence"));
  EXPECT_THAT(doctor.diagnoses(), IsEmpty());
}

// The same run with and without statistics in every step.
TEST(Doctor, ChangesNothing) {
  for (const char* precision : {"bf16", "fp8"}) {
    train::Config config = train::small_config(precision);
    const auto losses = [&](int64_t layer_stats) {
      const testing::TemporaryFolder folder;
      config.run.layer_stats = layer_stats;
      train::Trainer trainer(config);
      Doctor doctor;
      doctor.begin(trainer, folder.path());
      return take_steps(trainer, doctor, train::small_tokens(), 6);
    };
    EXPECT_EQ(losses(0), losses(1)) << precision;
  }
}

TEST(Doctor, RanksLayersAndWritesStatistics) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp8");
  config.run.layer_stats = 3;
  config.model.width = 32;
  config.model.hidden = 128;
  train::Trainer trainer(config);
  plant_outlier(trainer);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 6);
  ASSERT_EQ(doctor.ranking().size(), 8u);  // two blocks of four linear layers
  const LayerStats& worst = doctor.ranking()[0];
  EXPECT_EQ(worst.module, "blocks.1.mlp.up");
  EXPECT_GT(worst.harm(), 0.5);
  EXPECT_NEAR(worst.weight.amax, 1e5, 1e3);
  EXPECT_GT(worst.weight.out_of_range[2].underflow, 0.9);  // e4m3
  EXPECT_EQ(worst.weight.out_of_range[1].underflow, 0);    // bf16
  EXPECT_LT(doctor.ranking().back().harm(), AutoPrecision::max_harm);
  EXPECT_GT(doctor.ranking().back().forward.sqnr, 20);
  EXPECT_THAT(ranking_text(doctor.ranking()), HasSubstr("blocks.1.mlp.up"));
  // Every third step, and the fourth, where FP8 is looked at first.
  std::istringstream lines(testing::content_of(folder / "layers.jsonl"));
  std::vector<std::string> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(line.substr(0, 9));
  EXPECT_THAT(steps, ::testing::ElementsAre("{\"step\":3", "{\"step\":4", "{\"step\":6"));
}

TEST(Doctor, MeasuresSelectedLayers) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config();
  config.run.layer_stats = 1;
  config.run.layer_stats_modules = {"blocks.*.mlp"};
  train::Trainer trainer(config);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 1);
  std::vector<std::string> modules;
  for (const LayerStats& layer : doctor.ranking()) modules.push_back(layer.module);
  EXPECT_THAT(modules, ::testing::UnorderedElementsAre("blocks.0.mlp.up", "blocks.0.mlp.down",
                                                       "blocks.1.mlp.up", "blocks.1.mlp.down"));
  // Scalars for TensorBoard.
  std::string events;
  for (const auto& file : std::filesystem::directory_iterator(folder / "tb/layers"))
    events += testing::content_of(file.path());
  for (const char* tag :
       {"harm/blocks.0.mlp.up", "input_amax/blocks.1.mlp.down",
        "gradient_sqnr_e4m3/blocks.0.mlp.down", "weight_underflow_f16/blocks.1.mlp.up"})
    EXPECT_THAT(events, HasSubstr(tag));
  EXPECT_THAT(events, ::testing::Not(HasSubstr("attention")));
  config.run.layer_stats_modules = {"blocks.7"};
  train::Trainer other(config);
  EXPECT_THAT([&] { doctor.begin(other, folder.path()); },
              ::testing::ThrowsMessage<Error>(HasSubstr("'blocks.7'")));
}

TEST(Doctor, MovesHarmedLayersAndWritesAPlanThatRunsCanUse) {
  const testing::TemporaryFolder folder;
  train::Config config = train::small_config("fp8");
  config.model.width = 32;
  config.model.hidden = 128;
  config.precision.automatic = true;
  train::Trainer trainer(config);
  plant_outlier(trainer);
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  take_steps(trainer, doctor, train::small_tokens(), 6);
  ASSERT_EQ(doctor.plan().layers.size(), 1u);
  EXPECT_EQ(doctor.plan().layers[0].module, "blocks.1.mlp.up");
  EXPECT_EQ(doctor.plan().layers[0].step, 4);
  const auto file = folder / "precision_plan.json";
  EXPECT_EQ(train::read_precision_plan(file), doctor.plan());

  config.precision.automatic = false;
  config.precision.plan = file.string();
  EXPECT_TRUE(train::Trainer(config).recipes().overrides.contains("blocks.1.mlp.up"));

  config.precision.automatic = true;  // a resumed run starts from its own plan
  config.precision.plan.clear();
  train::Trainer again(config);
  Doctor other;
  other.begin(again, folder.path());
  EXPECT_THAT(other.plan().layers,
              IsEmpty());  // the promotion is from step 4, and this run is at step 0
  take_steps(again, other, train::small_tokens(), 4);
  Doctor third;
  third.begin(again, folder.path());
  EXPECT_EQ(again.recipes().overrides.size(), third.plan().layers.size());
}

}  // namespace
}  // namespace binade::lab
