#include "binade/train/memory/device_memory.h"

#include <gtest/gtest.h>

namespace binade::train {
namespace {

TEST(DeviceMemory, OfThisMachine) {
  const int64_t total = total_memory(Device::cpu()), free = free_memory(Device::cpu());
  EXPECT_GT(free, int64_t{1} << 24);  // this process runs
  EXPECT_GT(total, free);
  EXPECT_LT(total, int64_t{1} << 50);
}

TEST(DeviceMemory, OfAGpuThatIsNotThereIsNone) { EXPECT_EQ(total_memory(Device::cuda(1000)), 0); }

}  // namespace
}  // namespace binade::train
