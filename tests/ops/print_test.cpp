#include "binade/ops/print.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "binade/ops/shape/shape.h"
#include "support/special_values.h"
#include "support/tensors.h"

namespace binade {
namespace {

TEST(Print, ShowsRowsAndWhatTheyAre) {
  std::ostringstream out;
  out << tensor({1, 2.5, -3, 4}, {2, 2});
  EXPECT_EQ(out.str(),
            "[[ 1.0000,  2.5000],\n"
            " [-3.0000,  4.0000]]\n"
            "[2, 2] f32 cpu");
}

TEST(Print, FollowsTheValues) {
  EXPECT_EQ(to_text(tensor(3.0)), "3.\n[] f32 cpu");
  EXPECT_EQ(to_text(tensor({1.0, 20.0, infinity})), "[ 1., 20., inf]\n[3] f32 cpu");
  EXPECT_EQ(to_text(tensor({1e-6, 2.0})), "[1.0000e-06, 2.0000e+00]\n[2] f32 cpu");
  EXPECT_EQ(to_text(tensor({true, false})), "[ true, false]\n[2] bool cpu");
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(to_text(tensor({most, int64_t{-1}})),
            "[9223372036854775807,                  -1]\n[2] i64 cpu")
      << "exact";
  EXPECT_EQ(to_text(tensor({1.0}, DType::bf16)), "[1.]\n[1] bf16 cpu");
}

TEST(Print, ShortensLongAxes) {
  EXPECT_EQ(to_text(arange(2000)), "[   0,    1,    2, ..., 1997, 1998, 1999]\n[2000] i64 cpu");
  const Tensor cube = reshape(arange(2 * 2 * 500, DType::f32), {2, 2, 500});
  EXPECT_EQ(to_text(cube),
            "[[[   0.,    1.,    2., ...,  497.,  498.,  499.],\n"
            "  [ 500.,  501.,  502., ...,  997.,  998.,  999.]],\n\n"
            " [[1000., 1001., 1002., ..., 1497., 1498., 1499.],\n"
            "  [1500., 1501., 1502., ..., 1997., 1998., 1999.]]]\n"
            "[2, 2, 500] f32 cpu");
  EXPECT_EQ(to_text(arange(1000)).find("..."), std::string::npos);
}

TEST(Print, NeedsNoValues) {
  EXPECT_EQ(to_text(Tensor()), "undefined");
  EXPECT_EQ(to_text(zeros({2}, DType::f32, Device::meta())), "[2] f32 meta");
  EXPECT_EQ(to_text(zeros({0})), "[]\n[0] f32 cpu");
}

}  // namespace
}  // namespace binade
