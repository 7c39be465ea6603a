#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/lab/doctor.h"
#include "binade/ops/create/copy.h"
#include "binade/ops/create/create.h"
#include "binade/train/checkpoint.h"
#include "io/temporary_folder.h"
#include "train/small_run.h"

namespace binade::lab {
namespace {

using ::testing::ElementsAre;

train::Config promoting_config() {
  train::Config config = train::small_config("fp8");
  config.train.steps = 8;
  config.model.width = 32;
  config.model.hidden = 128;
  config.precision.automatic = true;
  return config;
}

std::vector<std::string> modules_of(const Doctor& doctor) {
  std::vector<std::string> modules;
  for (const train::Promotion& one : doctor.plan().layers) modules.push_back(one.module);
  return modules;
}

// What a run resumed at each step goes on with: a promotion made after step 4 holds from step 5 on,
// and so for a run that resumes at step 4.
TEST(DoctorResume, TakesUpWhatWasFoundByItsStep) {
  const testing::TemporaryFolder folder;
  train::Config config = promoting_config();
  config.precision.automatic = false;
  train::Trainer trainer(config);
  const std::vector<std::vector<std::string>> expected = {{},
                                                          {},
                                                          {"blocks.0.mlp.up"},
                                                          {"blocks.0.mlp.up"},
                                                          {"blocks.0.mlp.up", "blocks.1.mlp.up"},
                                                          {"blocks.0.mlp.up", "blocks.1.mlp.up"}};
  for (const auto& modules : expected) {
    // As a run that went on to its end has left it.
    train::write_precision_plan(
        {.layers = {{"blocks.0.mlp.up", 2, 0.5}, {"blocks.1.mlp.up", 4, 0.5}}},
        folder / "precision_plan.json");
    train::Trainer resumed(promoting_config());
    resumed.load_state_dict(trainer.state_dict());
    Doctor doctor;
    doctor.begin(resumed, folder.path());
    EXPECT_EQ(modules_of(doctor), modules) << "at step " << resumed.steps();
    EXPECT_EQ(resumed.recipes().overrides.size(), modules.size());
    trainer.step(train::small_tokens());
  }
}

struct Guided {
  train::Trainer trainer;
  Doctor doctor;

  Guided() : trainer(promoting_config()) {}
  double step() {
    doctor.before_step(trainer);
    const train::StepResult result = trainer.step(train::small_tokens());
    doctor.after_step(trainer, train::small_tokens(), result);
    return result.loss;
  }
};

// A hidden unit with a giant weight that is switched off: FP8 loses the layer's other weights.
void plant_giant(train::Trainer& trainer) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : trainer.model().named_parameters()) {
    if (name == "blocks.1.mlp.up.weight") fill_(parameter.strided({1}, {1}, 0), 1e5);
    if (name == "blocks.1.mlp.up.bias") fill_(parameter.strided({1}, {1}, 0), -1e9);
  }
}

TEST(DoctorResume, AtTheStepOfAPromotionIsBitForBitTheUninterruptedRun) {
  const testing::TemporaryFolder folder;
  Guided straight;
  plant_giant(straight.trainer);
  straight.doctor.begin(straight.trainer, folder.path());
  for (int i = 0; i < 4; ++i) straight.step();
  ASSERT_THAT(modules_of(straight.doctor), ElementsAre("blocks.1.mlp.up"));
  ASSERT_EQ(straight.doctor.plan().layers[0].step, 4);
  const auto saved = train::save_checkpoint(straight.trainer, folder.path(), 2);

  Guided resumed;
  train::load_checkpoint(resumed.trainer, saved);
  resumed.doctor.begin(resumed.trainer, folder.path());
  ASSERT_EQ(resumed.trainer.steps(), 4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(resumed.step(), straight.step()) << "step " << 5 + i;
}

// A run that cannot write its log saves a checkpoint before the doctor has heard of the step.
TEST(DoctorResume, ACheckpointHasTheStatisticsOfItsLastStep) {
  const testing::TemporaryFolder heard, unheard;
  Guided straight, failing;
  for (Guided* one : {&straight, &failing}) {
    plant_giant(one->trainer);
    one->doctor.begin(one->trainer, (one == &straight ? heard : unheard).path());
    for (int i = 0; i < 3; ++i) one->step();
  }
  straight.step();
  failing.doctor.before_step(failing.trainer);
  failing.trainer.step(train::small_tokens());
  failing.doctor.before_checkpoint(failing.trainer);
  ASSERT_THAT(modules_of(straight.doctor), ElementsAre("blocks.1.mlp.up"));
  EXPECT_EQ(failing.doctor.plan(), straight.doctor.plan());
  for (const char* name : {"layers.jsonl", "precision_plan.json"})
    EXPECT_EQ(testing::content_of(unheard / name), testing::content_of(heard / name)) << name;
}

// The trainer's state at the end and the doctor's files, of a run in `folder`.
std::string outcome_of(train::Trainer& trainer, const std::filesystem::path& folder) {
  const auto saved = train::save_checkpoint(trainer, folder, 1);
  std::string all = testing::content_of(saved / "model.safetensors") +
                    testing::content_of(saved / "trainer.safetensors");
  for (const char* name : {"layers.jsonl", "precision_plan.json", "doctor.txt"})
    all += std::string(name) + "\n" + testing::content_of(folder / name);
  return all;
}

// Statistics, plan and state are byte for byte those of the uninterrupted run, wherever a run that
// had gone on to its end is resumed.
TEST(DoctorResume, LeavesTheFilesOfTheUninterruptedRun) {
  constexpr int64_t steps = 7;
  train::Config config = promoting_config();
  config.run.layer_stats = 3;
  const auto guided = [](train::Trainer& trainer, const std::filesystem::path& folder) {
    Doctor doctor;
    doctor.begin(trainer, folder);
    while (trainer.steps() < steps) {
      doctor.before_step(trainer);
      const train::StepResult result = trainer.step(train::small_tokens());
      doctor.after_step(trainer, train::small_tokens(), result);
    }
  };
  for (int64_t at = 1; at < steps; ++at) {
    SCOPED_TRACE("resumed at step " + std::to_string(at));
    const testing::TemporaryFolder straight, stopped;
    std::filesystem::path checkpoint;
    const auto run = [&](const testing::TemporaryFolder& folder) {
      auto trainer = std::make_unique<train::Trainer>(config);
      plant_giant(*trainer);
      Doctor doctor;
      doctor.begin(*trainer, folder.path());
      while (trainer->steps() < steps) {
        doctor.before_step(*trainer);
        const train::StepResult result = trainer->step(train::small_tokens());
        doctor.after_step(*trainer, train::small_tokens(), result);
        if (trainer->steps() == at)
          checkpoint = train::save_checkpoint(*trainer, folder / "checkpoints", 2);
      }
      return trainer;
    };
    const std::string expected = outcome_of(*run(straight), straight.path());
    run(stopped);
    train::Trainer resumed(config);
    train::load_checkpoint(resumed, checkpoint);
    guided(resumed, stopped.path());
    EXPECT_TRUE(outcome_of(resumed, stopped.path()) == expected);
    EXPECT_EQ(testing::content_of(stopped / "layers.jsonl"),
              testing::content_of(straight / "layers.jsonl"));
    EXPECT_EQ(testing::content_of(stopped / "precision_plan.json"),
              testing::content_of(straight / "precision_plan.json"));
  }
}

// A layer of which one or two matmuls are in bf16: the scales that the others use go on, and are in
// the checkpoint with those that wait.
TEST(DoctorResume, KeepsTheScalesOfPartlyMovedLayers) {
  constexpr int64_t steps = 6, at = 3;
  const train::PrecisionPlan plan{.layers = {{.module = "blocks.0.mlp.up",
                                              .step = 0,
                                              .harm = 0.5,
                                              .forward = false,
                                              .dgrad = true,
                                              .wgrad = false},
                                             {.module = "blocks.1.mlp.up",
                                              .step = 0,
                                              .harm = 0.5,
                                              .forward = true,
                                              .dgrad = true,
                                              .wgrad = false}}};
  const testing::TemporaryFolder straight, stopped;
  std::filesystem::path checkpoint;
  const auto go_on = [&](train::Trainer& trainer, const testing::TemporaryFolder& folder) {
    Doctor doctor;
    doctor.begin(trainer, folder.path());
    EXPECT_EQ(trainer.recipes().overrides.size(), 2u);
    while (trainer.steps() < steps) {
      doctor.before_step(trainer);
      const train::StepResult result = trainer.step(train::small_tokens());
      doctor.after_step(trainer, train::small_tokens(), result);
      if (trainer.steps() == at)
        checkpoint = train::save_checkpoint(trainer, folder / "checkpoints", 2);
    }
  };
  for (const testing::TemporaryFolder* folder : {&straight, &stopped})
    train::write_precision_plan(plan, *folder / "precision_plan.json");
  train::Trainer uninterrupted(promoting_config());
  go_on(uninterrupted, straight);
  {
    train::Trainer first(promoting_config());
    go_on(first, stopped);
  }
  train::Trainer resumed(promoting_config());
  train::load_checkpoint(resumed, checkpoint);
  go_on(resumed, stopped);
  EXPECT_TRUE(outcome_of(resumed, stopped.path()) == outcome_of(uninterrupted, straight.path()));
  EXPECT_EQ(testing::content_of(stopped / "layers.jsonl"),
            testing::content_of(straight / "layers.jsonl"));
  // The weight of the second layer is in no quantized matmul; its input and gradient are.
  const std::pair<const char*, bool> expected[] = {
      {"blocks.0.mlp.up.scales.weight.history", true},
      {"blocks.0.mlp.up.scales.gradient.history", true},
      {"blocks.1.mlp.up.scales.input.history", true},
      {"blocks.1.mlp.up.scales.weight.history", false},
      {"blocks.1.mlp.up.scales.gradient.history", true}};
  for (const auto& [name, in_use] : expected) {
    for (const auto& [path, tensor] : resumed.model().named_buffers()) {
      if (path == name) {
        EXPECT_EQ(to_vector(tensor)[0] > 0, in_use) << name;
      }
    }
  }
}

// A log is repaired before it is read: damaged lines go aside and are counted, the others stay.
TEST(DoctorResume, MovesDamagedLinesOfItsLogAside) {
  const testing::TemporaryFolder folder;
  const std::string first = "{\"step\":0,\"x\":1}\n", second = "{\"step\":0,\"x\":2}\n";
  const auto warnings_of = [&](const std::string& log, bool automatic) {
    folder.put("layers.jsonl", log);
    std::filesystem::remove(folder / "layers.jsonl.damaged");
    train::Config config = promoting_config();
    config.precision.automatic = automatic;
    train::Trainer trainer(config);
    Doctor doctor;
    const std::vector<std::string> warnings = doctor.begin(trainer, folder.path());
    EXPECT_EQ(testing::content_of(folder / "layers.jsonl"), first + second);
    return warnings;
  };
  EXPECT_THAT(warnings_of(first + second, false), ::testing::IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / "layers.jsonl.damaged"));
  EXPECT_THAT(warnings_of(first + "{\"step\":\n" + second, false),
              ElementsAre("1 damaged line was moved from layers.jsonl to layers.jsonl.damaged"));
  EXPECT_EQ(testing::content_of(folder / "layers.jsonl.damaged"), "{\"step\":\n");
  EXPECT_THAT(warnings_of("x\n" + first + second + "y\n", false),
              ElementsAre("2 damaged lines were moved from layers.jsonl to layers.jsonl.damaged"));
  EXPECT_EQ(testing::content_of(folder / "layers.jsonl.damaged"), "x\ny\n");
}

TEST(DoctorResume, DropsDiagnosesOfLaterSteps) {
  const testing::TemporaryFolder folder;
  folder.put("doctor.txt", "doctor, step 0: a\n  more\ndoctor, step 1: b\n  more\n");
  folder.put("layers.jsonl", "{\"step\":0,\"x\":1}\n{\"step\":4,\"x\":1}\n{\"st");
  train::Trainer trainer(promoting_config());
  Doctor doctor;
  doctor.begin(trainer, folder.path());
  EXPECT_EQ(testing::content_of(folder / "doctor.txt"), "doctor, step 0: a\n  more\n");
  EXPECT_EQ(testing::content_of(folder / "layers.jsonl"), "{\"step\":0,\"x\":1}\n");
}

}  // namespace
}  // namespace binade::lab
