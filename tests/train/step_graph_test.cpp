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
  config.graph = GraphMode::on;
  EXPECT_THAT(test::error_of([&] { Trainer trainer(config); }),
              AllOf(HasSubstr("[train] graph: expected 'auto' or 'off' on cpu"),
                    HasSubstr("only a GPU's work can be recorded")));
}

// A forecast asks what a GPU's run will take, on a machine that may have none.
TEST(StepGraph, OnIsNothingToAForecast) {
  StepGraph graph(GraphMode::on, Device::meta());
  EXPECT_FALSE(graph.launches_next());
}

TEST(StepGraph, OnACpuEveryStepRunsByItself) {
  for (const GraphMode wanted : {GraphMode::automatic, GraphMode::off}) {
    StepGraph graph(wanted, Device::cpu());
    int runs = 0;
    for (int i = 0; i < 5; ++i) {
      EXPECT_FALSE(graph.launches_next());
      graph.run([&] { ++runs; });
    }
    EXPECT_EQ(runs, 5);
    EXPECT_FALSE(graph.recorded());
  }
}

}  // namespace
}  // namespace binade::train
