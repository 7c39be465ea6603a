#include "binade/tensor/device.h"

#include <gtest/gtest.h>

#include "support/values.h"

namespace binade {
namespace {

TEST(Device, IsReadBackFromItsText) {
  for (const Device device : {Device::cpu(), Device::meta(), Device::cuda(), Device::cuda(7)}) {
    EXPECT_EQ(parse_device(to_string(device)), device) << to_string(device);
  }
  EXPECT_EQ(parse_device("cuda"), Device::cuda(0));
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
}

TEST(Device, RefusesOtherTexts) {
  for (const char* text :
       {"", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "gpu", "meta:0", "cuda:99999999999"}) {
    EXPECT_EQ(test::error_of([&] { parse_device(text); }),
              "parse_device: device: expected cpu, cuda, cuda:N or meta, found '" +
                  std::string(text) + "'");
  }
}

TEST(Device, KnowsItsKind) {
  EXPECT_TRUE(Device::cpu().is_cpu() && !Device::cpu().is_cuda() && !Device::cpu().is_meta());
  EXPECT_TRUE(Device::cuda(1).is_cuda() && Device::meta().is_meta());
  EXPECT_NE(Device::cuda(0), Device::cuda(1));
  EXPECT_EQ(Device(), Device::cpu());
}

}  // namespace
}  // namespace binade
