#include "binade/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/values.h"

namespace binade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor counting(const Shape& shape) {
  const Tensor x = Tensor::empty(shape, DType::f32);
  std::vector<double> values(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  test::write(x, values);
  return x;
}

TEST(Tensor, IsUndefinedByDefault) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(describe(none), "undefined");
  EXPECT_FALSE(TensorView(none).present);
  EXPECT_FALSE(none.detach().defined());
  EXPECT_FALSE(Tensor::empty({2}, DType::f32).same_as(none));
}

TEST(Tensor, UndefinedHandlesFailRatherThanCrash) {
  const Tensor none;
  const std::vector<std::function<void()>> accesses{[&] { none.shape(); },
                                                    [&] { none.size(0); },
                                                    [&] { none.strides(); },
                                                    [&] { none.rank(); },
                                                    [&] { none.numel(); },
                                                    [&] { none.dtype(); },
                                                    [&] { none.device(); },
                                                    [&] { none.bytes(); },
                                                    [&] { none.offset(); },
                                                    [&] { none.storage(); },
                                                    [&] { none.is_dense(); },

                                                    [&] { none.raw_data(); },
                                                    [&] { none.version(); },
                                                    [&] { none.bump_version(); },
                                                    [&] { none.autograd_meta(); },
                                                    [&] { none.is_leaf(); },
                                                    [&] { none.set_autograd_meta({}); },
                                                    [&] { none.set_grad(none); },
                                                    [&] { none.strided({1}, {1}, 0); },
                                                    [&] { none.grad_dtype(); },
                                                    [&] { none.set_grad_dtype(DType::f32); },
                                                    [&] { Tensor::empty_like(none); },
                                                    [&] { Tensor().set_requires_grad(); }};
  for (size_t i = 0; i < accesses.size(); ++i)
    EXPECT_THAT(test::error_of(accesses[i]), HasSubstr("expected a defined tensor, found none"))
        << i;
  EXPECT_EQ(test::error_of([&] { none.item(); }),
            "item: tensor: expected one element, found undefined");
  EXPECT_FALSE(none.is_sole_owner());
  EXPECT_FALSE(none.requires_grad());
  EXPECT_FALSE(none.grad().defined());
}

TEST(Tensor, ViewsStayInsideTheirStorage) {
  const Tensor x = counting({3, 4});
  const int64_t huge = std::numeric_limits<int64_t>::max(),
                least = std::numeric_limits<int64_t>::min();
  const auto refused = [&](const Shape& shape, const Strides& strides, int64_t offset) {
    return !test::error_of([&] { x.strided(shape, strides, offset); }).empty();
  };
  EXPECT_FALSE(refused({12}, {1}, 0));
  EXPECT_FALSE(refused({12}, {-1}, 11));
  EXPECT_FALSE(refused({}, {}, 11));
  EXPECT_FALSE(refused({huge, 0}, {huge, huge}, 5)) << "no element lies anywhere";
  EXPECT_TRUE(refused({13}, {1}, 0));
  EXPECT_TRUE(refused({12}, {1}, 1));
  EXPECT_TRUE(refused({12}, {-1}, 10));
  EXPECT_TRUE(refused({}, {}, 12));
  EXPECT_TRUE(refused({1}, {1}, -1));
  EXPECT_TRUE(refused({2, 2}, {1}, 0));
  EXPECT_TRUE(refused({-1}, {1}, 0));
  EXPECT_TRUE(refused({-1, 0}, {1, 1}, 0));
  EXPECT_TRUE(refused({huge, 2}, {huge, 1}, 0));
  EXPECT_TRUE(refused({2}, {huge}, huge));
  EXPECT_TRUE(refused({3}, {least}, 0));
  EXPECT_EQ(test::error_of([&] { x.strided({5}, {4}, 1); }),
            "strided: view: expected inside the storage's 12 elements, found [5] with strides [4] "
            "from element 1");
}

TEST(Tensor, WritingThroughTheAddressCountsAsAWrite) {
  const Tensor x = counting({2});
  const uint64_t before = x.version();
  EXPECT_EQ(x.data<float>()[1], 1);
  EXPECT_EQ(x.version(), before);
  x.mutable_data<float>()[1] = 5;
  EXPECT_EQ(x.version(), before + 1);
  EXPECT_EQ(x.data<float>()[1], 5);
  static_assert(std::is_same_v<decltype(x.data<float>()), const float*>);
}

TEST(Tensor, DescribesItself) {
  EXPECT_EQ(describe(Tensor::empty({2, 3}, DType::bf16)), "[2, 3] bf16 cpu");
  EXPECT_EQ(describe(Tensor::empty({}, DType::i64, Device::meta())), "[] i64 meta");
}

TEST(Tensor, EmptyIsDenseAndOfItsShape) {
  const Tensor x = Tensor::empty({2, 3, 5}, DType::f16);
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.numel(), 30);
  EXPECT_EQ(x.bytes(), 60);
  EXPECT_EQ(x.size(-1), 5);
  EXPECT_EQ(x.strides(), (Strides{15, 5, 1}));
  EXPECT_TRUE(x.is_dense());
  EXPECT_EQ(Tensor::empty_like(x).shape(), x.shape());
  EXPECT_EQ(test::error_of([&] { x.size(3); }),
            "size: axis: expected an axis of a tensor with 3 dimensions, found 3");
}

TEST(Tensor, RefusesImpossibleShapes) {
  EXPECT_EQ(test::error_of([] {
              Tensor::empty({2, -1}, DType::f32);
            }),
            "empty: shape: expected sizes of at least 0, found [2, -1]");
  const int64_t big = int64_t{1} << 31;
  EXPECT_EQ(test::error_of([&] {
              Tensor::empty({big, big, 2}, DType::f64);
            }),
            "empty: shape: expected fewer than 2^63 bytes, found [2147483648, 2147483648, 2]");
  EXPECT_EQ(test::error_of([&] {
              Tensor::empty({big, big}, DType::f64, Device::meta());
            }),
            "empty: shape: expected fewer than 2^63 bytes, found [2147483648, 2147483648]");
}

TEST(Tensor, EmptyTensorsHaveNoData) {
  const Tensor x = Tensor::empty({3, 0}, DType::f32);
  EXPECT_EQ(x.numel(), 0);
  EXPECT_EQ(x.bytes(), 0);
  EXPECT_EQ(x.raw_data(), nullptr);
  EXPECT_TRUE(x.is_dense());
}

TEST(Tensor, CopiesShareTheirData) {
  const Tensor x = counting({3});
  const Tensor same = x;
  EXPECT_TRUE(same.same_as(x));
  same.mutable_data<float>()[1] = 9;
  EXPECT_THAT(test::read(x), ElementsAre(0, 9, 2));
  const Tensor apart = x.detach();
  EXPECT_FALSE(apart.same_as(x));
  EXPECT_EQ(apart.data<float>(), x.data<float>());
}

TEST(Tensor, ViewsSeeTheSameStorage) {
  const Tensor x = counting({3, 4});
  const Tensor transposed = x.strided({4, 3}, {1, 4}, 0);
  EXPECT_FALSE(transposed.is_dense());
  EXPECT_THAT(test::read(transposed), ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
  const Tensor corner = x.strided({2, 2}, {4, 2}, 5);
  EXPECT_THAT(test::read(corner), ElementsAre(5, 7, 9, 11));
  const Tensor repeated = x.strided({2, 3}, {0, 1}, 1);
  EXPECT_THAT(test::read(repeated), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_FALSE(repeated.is_dense());
  // The stride of an axis with one element does not matter.
  EXPECT_TRUE(x.strided({1, 4}, {99, 1}, 4).is_dense());
}

TEST(Tensor, KnowsWhetherItIsTheSoleOwner) {
  Tensor x = Tensor::empty({4}, DType::f32);
  EXPECT_TRUE(x.is_sole_owner());
  {
    const Tensor copy = x;
    EXPECT_FALSE(x.is_sole_owner());
  }
  {
    const Tensor view = x.strided({2}, {1}, 0);
    EXPECT_FALSE(x.is_sole_owner());
  }
  EXPECT_TRUE(x.is_sole_owner());
}

TEST(Tensor, VersionsAreSharedByViews) {
  const Tensor x = Tensor::empty({4}, DType::f32);
  const Tensor view = x.strided({2}, {1}, 2);
  view.bump_version();
  EXPECT_EQ(x.version(), 1u);
}

TEST(Tensor, ViewsAWholeStorage) {
  float values[6] = {0, 1, 2, 3, 4, 5};
  const Tensor x =
      Tensor::of_storage(std::make_shared<Storage>(values, sizeof values, Device::cpu(), [] {}),
                         {3, 2}, {1, 3}, DType::f32);
  EXPECT_EQ(x.raw_data(), values);
  EXPECT_EQ(x.strides(), (Strides{1, 3}));
  EXPECT_FALSE(x.is_dense());
  // Its owner may read it at any time, so nothing may be written into it.
  EXPECT_FALSE(x.is_sole_owner());
}

TEST(Tensor, DataIsChecked) {
  const Tensor x = Tensor::empty({4}, DType::f32);
  EXPECT_EQ(test::error_of([&] { x.data<double>(); }), "data: type: expected f32, found f64");
  EXPECT_THAT(test::error_of([] { Tensor::empty({4}, DType::f32, Device::meta()).data<float>(); }),
              HasSubstr("data: device: expected cpu, found meta"));
  EXPECT_THAT(test::error_of([] { Tensor().data<float>(); }),
              HasSubstr("data: tensor: expected a defined tensor"));
}

TEST(TensorView, ExpandsWithoutCopying) {
  const Tensor x = counting({3, 1});
  const TensorView wide = TensorView(x).expanded({2, 3, 4});
  EXPECT_EQ(wide.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(wide.strides, (Strides{0, 1, 0}));
  EXPECT_EQ(wide.data, x.raw_data());
  EXPECT_TRUE(wide.present);
  EXPECT_FALSE(wide.is_dense());
  EXPECT_TRUE(TensorView(x).is_dense());
}

}  // namespace
}  // namespace binade
