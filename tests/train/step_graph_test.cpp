#include "binade/train/step_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/train/trainer.h"
#include "support/values.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StepGraph, OnWithoutAGpuIsRefusedWithTheReason) {
  Config config = small_config();
  config.train.graph = GraphMode::on;
  EXPECT_THAT(test::error_of([&] { Trainer trainer(config); }),
              AllOf(HasSubstr("[train] graph: expected 'auto' or 'off' on cpu"),
                    HasSubstr("only a GPU's work can be captured")));
}

// A GPU's run can be forecast on a machine without a GPU.
TEST(StepGraph, OnIsIgnoredByAForecast) {
  StepGraph graph(GraphMode::on, Device::meta());
  EXPECT_FALSE(graph.replays_next());
}

TEST(StepGraph, OnACpuNoStepIsAReplay) {
  for (const GraphMode wanted : {GraphMode::automatic, GraphMode::off}) {
    StepGraph graph(wanted, Device::cpu());
    int runs = 0;
    for (int i = 0; i < 5; ++i) {
      EXPECT_FALSE(graph.replays_next());
      graph.run([&] { ++runs; });
    }
    EXPECT_EQ(runs, 5);
    EXPECT_FALSE(graph.captured());
  }
}

}  // namespace
}  // namespace binade::train
