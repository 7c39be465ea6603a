#include "binade/train/config/aliases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/train/config/keys.h"

namespace binade::train {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Aliases, KnowWhatWasMeant) {
  EXPECT_EQ(own_name("learning_rate"), "lr");
  EXPECT_EQ(own_name("wd"), "weight_decay");  // the last of the table
  EXPECT_EQ(own_name("bf16"), "precision");
  EXPECT_EQ(own_name("lr"), "");
  EXPECT_EQ(own_name("frobnicate"), "");
  EXPECT_EQ(own_name(""), "");
}

// Other values: --bf16 has none, --warmup-ratio a fraction.
TEST(Aliases, AcceptOnlyThoseThatTakeTheSameValues) {
  EXPECT_EQ(name_for("learning_rate"), "lr");
  EXPECT_EQ(name_for("num_train_epochs"), "epochs");
  for (const char* near : {"bf16", "warmup_ratio", "gradient_checkpointing",
                           "resume_from_checkpoint", "max_length", "global_batch_size"}) {
    EXPECT_NE(own_name(near), "") << near;
    EXPECT_EQ(name_for(near), "") << near;
  }
}

TEST(Aliases, AreListedByOwnName) {
  EXPECT_THAT(other_names("steps"), Contains("max_steps"));
  EXPECT_THAT(other_names("steps"), Not(Contains("epochs")));
  EXPECT_THAT(other_names("precision"), IsEmpty());
}

// An alias that is a key itself would hide that key.
TEST(Aliases, AreNoKeys) {
  for (const Key& key : keys()) {
    std::string name = option_name(key).substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    EXPECT_EQ(own_name(name), "") << name;
  }
}

}  // namespace
}  // namespace binade::train
