#include "binade/backend/side_stream.h"

#include <gtest/gtest.h>

#include "binade/backend/gpu.h"
#include "binade/base/error.h"

namespace binade::backend::side_stream_test {
namespace {

TEST(SideStream, NeedsAGpu) {
  if (!gpus().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THROW(SideStream{Device::cuda()}, Error);
}

TEST(SideStreamGpu, FollowsTheDeviceAndIsFollowed) {
  if (gpus().empty()) GTEST_SKIP() << "there is no GPU";
  SideStream stream(Device::cuda());
  EXPECT_NE(stream.native(), nullptr);
  stream.follow_device();
  const SideStream::Event end = stream.record();
  stream.make_device_wait(end);
  synchronize(Device::cuda());
  EXPECT_TRUE(end.reached());
  EXPECT_FALSE(stream.is_capturing());
}

}  // namespace
}  // namespace binade::backend::side_stream_test
