#include "binade/ranks/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/autograd/grad_mode.h"
#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "ranks/mpirun.h"
#include "support/error_of.h"

namespace binade::ranks {
namespace {

using ::testing::HasSubstr;

class UnitsMpi : public MpiTest {};

// Masters, moments, losses, norms and loss scales of stage 3 are those of one process, and the
// blocks' parameters take the memory of a rank's part.
TEST_F(UnitsMpi, StageThreeHasTheBitsOfOneProcess) {
  for (const std::string options :
       {"f32 plain", "bf16 recompute", "bf16 plain split", "f16 recompute", "f16 plain"}) {
    SCOPED_TRACE(options);
    const std::string alone = on_ranks(1, "language 2 " + options).out;
    ASSERT_THAT(alone, HasSubstr("blocks.2.mlp.down.weight"));
    if (options.starts_with("f16")) {
      EXPECT_THAT(alone, HasSubstr(" 0 0x")) << "no step overflowed";
    }
    EXPECT_THAT(alone, HasSubstr(" 1 0x")) << "no step was applied";
    for (const int ranks : {2, 3})
      EXPECT_EQ(on_ranks(ranks, "language 3 " + options).out, alone) << ranks;
  }
  EXPECT_EQ(on_ranks(3, "language 1 bf16 recompute").out, on_ranks(1, "language 3 bf16 plain").out);
  EXPECT_EQ(on_ranks(3, "language 1 bf16 recompute split").out,
            on_ranks(1, "language 3 bf16 plain split").out);
}

// Three units of two parameters each, on one rank of two without the other.
class PassOverUnits : public ::testing::Test {
 protected:
  PassOverUnits() {
    const memory::CategoryGuard category(memory::Category::parameters);
    for (int i = 0; i < 6; ++i) parameters_.push_back(full({40000}, i + 1.0, DType::f32));
    before_ = memory::allocated(memory::Category::parameters);
  }

  int64_t added() const { return memory::allocated(memory::Category::parameters) - before_; }

  static constexpr int64_t unit_bytes = 2 * 40000 * 4;
  std::vector<Tensor> parameters_;
  int64_t before_ = 0;
};

TEST_F(PassOverUnits, HoldsOneUnitAtATime) {
  const Partition partition(parameters_, 1);
  Units units(single(), partition, parameters_, {{0, 1}, {2, 3}, {4, 5}});
  const uint64_t version = parameters_[0].version();
  units.shard();
  EXPECT_EQ(added(), 0);  // shards instead of parameters
  EXPECT_FALSE(units.is_whole());
  units.begin_pass(Units::Pass::forward_and_backward);
  for (size_t unit = 0; unit < 3; ++unit) {
    units.before_forward(unit);
    EXPECT_EQ(added(), unit_bytes);
    EXPECT_EQ(parameters_[2 * unit + 1].data<float>()[39999], 2.0f * static_cast<float>(unit) + 2);
  }
  for (size_t unit = 3; unit-- > 0;) {
    units.before_backward(unit);
    units.before_backward(unit);  // by the second result of a block
    EXPECT_EQ(added(), unit_bytes);
    EXPECT_EQ(parameters_[2 * unit].data<float>()[0], 2.0f * static_cast<float>(unit) + 1);
  }
  units.end_pass();
  EXPECT_EQ(added(), 0);
  EXPECT_EQ(parameters_[0].version(), version);
}

TEST_F(PassOverUnits, RefusesAnotherOrder) {
  const Partition partition(parameters_, 1);
  Units units(single(), partition, parameters_, {{0, 1}, {2, 3}, {4, 5}});
  units.shard();
  units.begin_pass(Units::Pass::forward);
  units.before_forward(0);
  EXPECT_THAT(test::error_of([&] { units.before_forward(2); }),
              HasSubstr("unit 2: expected a forward and a backward that run "
                        "each unit once, in order"));
  EXPECT_THAT(test::error_of([&] { units.end_pass(); }), HasSubstr("expected 3 gathered"));
}

// An exception in a forward leaves the next unit's gather under way.
TEST_F(PassOverUnits, BeginAgainAfterAPassThatFailed) {
  const Partition partition(parameters_, 1);
  Units units(single(), partition, parameters_, {{0, 1}, {2, 3}, {4, 5}});
  units.shard();
  units.begin_pass(Units::Pass::forward);
  units.before_forward(0);
  units.begin_pass(Units::Pass::forward);
  for (size_t unit = 0; unit < units.size(); ++unit) units.before_forward(unit);
  EXPECT_EQ(parameters_[5].data<float>()[0], 6.0f);
  units.end_pass();
}

TEST_F(PassOverUnits, WeightsThatRank0AloneHasAreNotSharded) {
  const Partition partition(parameters_, 1);
  Units units(single(), partition, parameters_, {{0, 1}, {2, 3}});
  units.shard();
  units.gather(Units::Where::first_rank);
  EXPECT_THAT(test::error_of([&] { units.shard(); }),
              HasSubstr("expected whole ones on all ranks"));
  units.gather(Units::Where::all_ranks);
  units.shard();
  EXPECT_FALSE(units.is_whole());
}

TEST_F(PassOverUnits, AreWholeAgainAfterAGather) {
  const Partition partition(parameters_, 1);
  Units units(single(), partition, parameters_, {{0, 1}, {2, 3}});
  units.shard();
  EXPECT_TRUE(units.contains(3));
  EXPECT_FALSE(units.contains(4));
  units.gather(Units::Where::first_rank);
  EXPECT_TRUE(units.is_whole());
  EXPECT_EQ(parameters_[3].data<float>()[20000], 4.0f);
  EXPECT_EQ(added(), 2 * unit_bytes);
}

}  // namespace
}  // namespace binade::ranks
