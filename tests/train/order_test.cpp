#include "binade/train/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"

namespace binade::train {
namespace {

TEST(Orders, AreReadAsTheyWereWritten) {
  for (int value = 0; value <= static_cast<int>(Order::end); ++value) {
    for (const char* argument : {"", "12 observed", "a folder/with  spaces "}) {
      const Command given{static_cast<Order>(value), argument};
      const Command read = parse_command(to_text(given));
      EXPECT_EQ(read.order, given.order) << to_text(given);
      EXPECT_EQ(read.argument, argument) << to_text(given);
    }
  }
  EXPECT_EQ(to_text({Order::step, "12"}), "step 12");
  EXPECT_EQ(to_text({Order::end}), "end");
}

TEST(Orders, RefuseOtherTexts) {
  for (const char* text : {"", "steps", "step12", " step 1", "End"})
    EXPECT_THAT(test::error_of([&] { parse_command(text); }), ::testing::HasSubstr("order"))
        << text;
}

}  // namespace
}  // namespace binade::train
