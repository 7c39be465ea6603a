#include "binade/train/config/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/values.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Table>
void expect_one_name_per_value(const Table& table) {
  for (const auto& one : table) {
    const auto found = find_named(table, one.name);
    EXPECT_TRUE(found.has_value() && *found == one.value) << one.name;
    EXPECT_EQ(name_in(table, one.value), one.name);
  }
  EXPECT_FALSE(find_named(table, "none of them").has_value());
}

TEST(Choices, NamesAndValuesFindEachOther) {
  expect_one_name_per_value(preset_names);
  expect_one_name_per_value(model_names);
  expect_one_name_per_value(tied_head_names);
  expect_one_name_per_value(precision_names);
  expect_one_name_per_value(parameter_names);
  expect_one_name_per_value(residual_names);
  expect_one_name_per_value(moments_names);
  expect_one_name_per_value(gradient_names);
  expect_one_name_per_value(optimizer_names);
  expect_one_name_per_value(schedule_names);
  expect_one_name_per_value(graph_names);
  expect_one_name_per_value(device_names);
}

TEST(Choices, AValueWithoutANameIsRefused) {
  EXPECT_THAT(test::error_of([] { name_in(device_names, std::optional(Device::meta())); }),
              HasSubstr("a value with a name"));
}

TEST(Choices, AnUnknownPrecisionNamesTheKnownOnes) {
  EXPECT_EQ(parse_precision("fp8"), Precision::quantized);
  EXPECT_THAT(test::error_of([] { parse_precision("fp4"); }),
              AllOf(HasSubstr("one of fp32 tf32 bf16 fp16 fp8"), HasSubstr("\"fp4\"")));
}

}  // namespace
}  // namespace binade::train
