// Programs of LibTorch's documentation of tensors, with Binade's names. docs/from-libtorch.md lists
// them.
#include <binade/binade.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace binade;

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Lt;

// Installing: a first program that prints an identity matrix.
TEST(FromLibTorchTensors, FirstProgram) {
  const Tensor identity = eye(3);
  std::ostringstream out;
  out << identity << "\n";
  EXPECT_EQ(out.str(), "[[1., 0., 0.],\n [0., 1., 0.],\n [0., 0., 1.]]\n[3, 3] f32 cpu\n");
}

// Tensor Creation API: the factory functions.
TEST(FromLibTorchTensors, FactoryFunctions) {
  EXPECT_THAT(to_vector(arange(4)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(to_vector(arange(1, 8, 3)), ElementsAre(1, 4, 7));
  EXPECT_EQ(Tensor::empty({2, 3}, DType::f32).shape(), (Shape{2, 3}));
  EXPECT_THAT(to_vector(full({2}, 7)), ElementsAre(7, 7));
  EXPECT_THAT(to_vector(linspace(0, 1, 5)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(to_vector(ones({2})), ElementsAre(1, 1));
  EXPECT_THAT(to_vector(rand({100})), Each(::testing::AllOf(Ge(0), Lt(1))));
  EXPECT_THAT(to_vector(randint(3, 10, {100})), Each(::testing::AllOf(Ge(3), Lt(10))));
  EXPECT_THAT(to_vector(sort(randperm(4)).values), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(to_vector(tensor({1.5, 2.5})), ElementsAre(1.5, 2.5));
  manual_seed(1);
  const Tensor a = randn({5, 3});
  manual_seed(1);
  EXPECT_TRUE(equal(a, randn({5, 3})));
}

// Tensor Creation API: type, device and gradient of a new tensor.
TEST(FromLibTorchTensors, PropertiesOfANewTensor) {
  Tensor x = randn({3, 4}, DType::f64);
  x.set_requires_grad();
  EXPECT_EQ(x.dtype(), DType::f64);
  EXPECT_TRUE(x.device().is_cpu());
  EXPECT_TRUE(x.requires_grad());
  const Tensor shape_only = zeros({1 << 20, 1 << 20}, DType::f32, Device::meta());
  EXPECT_EQ(shape_only.numel(), int64_t{1} << 40);
  EXPECT_EQ(ones_like(x).dtype(), DType::f64);
}

// Tensor Creation API: conversion to another type and device.
TEST(FromLibTorchTensors, Conversion) {
  const Tensor source = tensor({1.0, 2.7, 1e9});
  const Tensor whole = cast(source, DType::i64);
  EXPECT_THAT(to_vector(whole), ElementsAre(1, 2, 1000000000));
  EXPECT_EQ(cast(source, DType::bf16).dtype(), DType::bf16);
  EXPECT_TRUE(to(source, Device::cpu()).same_as(source)) << "no copy if nothing changes";
}

// Tensor Basics: access to elements, here for the trace of a matrix.
TEST(FromLibTorchTensors, AccessToElements) {
  const Tensor foo = rand({12, 12});
  const float* elements = foo.data<float>();  // fails unless foo is f32 on the CPU
  double trace = 0;
  for (int64_t i = 0; i < foo.size(0); ++i) trace += elements[i * foo.strides()[0] + i];
  EXPECT_NEAR(trace, sum(foo * eye(12)).item(), 12 * 12 * epsilon(DType::f32));
}

// Tensor Basics: a tensor over memory of the program.
TEST(FromLibTorchTensors, ExternallyCreatedData) {
  float data[] = {1, 2, 3, 4, 5, 6};
  const Tensor f = from_blob(data, {2, 3});
  EXPECT_THAT(to_vector(sum(f, 0)), ElementsAre(5, 7, 9));
  data[0] = 10;
  EXPECT_EQ(f[0][0].item(), 10);
}

// Tensor Basics: numbers beside tensors, and tensors of rank 0.
TEST(FromLibTorchTensors, ScalarsAndRankZero) {
  const Tensor a = ones({2, 2}), b = eye(2), c = full({2, 2}, 3);
  const Tensor r = addmm(a, b, c, 1.0, 0.5);  // a + 0.5 * b c
  EXPECT_THAT(to_vector(r), Each(2.5));
  const Tensor two = zeros({10, 20});
  two[1][2] = 4;
  EXPECT_EQ(two[1][2].rank(), 0);
  EXPECT_EQ(sum(two).item(), 4);
  EXPECT_THAT(to_vector(2 * r - 1), Each(4));
  EXPECT_EQ(tensor({1, 2}).dtype(), DType::i64);
}

// Tensor Indexing API: reading.
TEST(FromLibTorchTensors, IndexingReads) {
  const Tensor x = reshape(arange(24, DType::f32), {2, 3, 4});
  EXPECT_EQ(index(x, {None}).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(index(x, {Ellipsis}).shape(), x.shape());
  EXPECT_THAT(to_vector(index(x, {1, 2})), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(to_vector(index(x, {0, 0, Slice(1, {}, 2)})), ElementsAre(1, 3));
  EXPECT_EQ(index(x, {true, 0}).shape(), (Shape{1, 3, 4}));
  EXPECT_THAT(to_vector(index(x, {1, tensor({0, 2}), 3})), ElementsAre(15, 23));
  EXPECT_THAT(to_vector(index(x, {Ellipsis, 0, Slice(1, {}, 2)})), ElementsAre(1, 3, 13, 15));
  EXPECT_THAT(to_vector(index(x, {x > 21})), ElementsAre(22, 23));
}

// Tensor Indexing API: writing.
TEST(FromLibTorchTensors, IndexingWrites) {
  const Tensor x = zeros({2, 3});
  index_put_(x, {Ellipsis}, 1);
  index_put_(x, {1, 2}, 5);
  index_put_(x, {Slice(), 0}, tensor({7.0, 8.0}));
  EXPECT_THAT(to_vector(x), ElementsAre(7, 1, 1, 8, 1, 5));
  index_put_(x, {tensor({1})}, 0);
  index_put_(x, {x == 1}, -1);
  EXPECT_THAT(to_vector(x), ElementsAre(7, -1, -1, 0, 0, 0));
}

}  // namespace
