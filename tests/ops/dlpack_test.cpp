#include "binade/ops/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "binade/base/error.h"
#include "binade/ops/create/create.h"
#include "binade/ops/reduce/reduce.h"
#include "binade/ops/shape/shape.h"
#include "support/error_of.h"
#include "support/values.h"

// The structs are read and written by the byte offsets of DLPack's specification, so that the
// layout itself is checked.
namespace binade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t versioned_tensor = 32, flags_offset = 24;

template <class T>
T read_at(const void* base, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + offset, sizeof(T));
  return value;
}

template <class T>
void write_at(std::byte* base, size_t offset, T value) {
  std::memcpy(base + offset, &value, sizeof(T));
}

void release(DLManagedTensorVersioned* managed) {
  read_at<void (*)(DLManagedTensorVersioned*)>(managed, 16)(managed);
}

std::vector<int64_t> list_at(const void* base, size_t offset, int rank) {
  const auto* values = read_at<const int64_t*>(base, offset);
  return {values, values + rank};
}

// A producer of its own: a [2, 3] f32 tensor of 0 to 5 that counts how often it is given back.
struct Producer {
  alignas(8) std::byte bytes[80] = {};
  std::vector<float> values{0, 1, 2, 3, 4, 5};
  std::vector<int64_t> shape{2, 3}, strides{3, 1};
  int released = 0;

  Producer() {
    write_at<uint32_t>(bytes, 0, 1);
    write_at<void*>(bytes, 8, this);
    write_at<void (*)(DLManagedTensorVersioned*)>(bytes, 16, [](DLManagedTensorVersioned* managed) {
      ++read_at<Producer*>(managed, 8)->released;
    });
    std::byte* tensor = bytes + versioned_tensor;
    write_at<void*>(tensor, 0, values.data());
    write_at<int32_t>(tensor, 8, 1);
    write_at<int32_t>(tensor, 16, 2);
    write_at<uint8_t>(tensor, 20, 2);
    write_at<uint8_t>(tensor, 21, 32);
    write_at<uint16_t>(tensor, 22, 1);
    write_at<int64_t*>(tensor, 24, shape.data());
    write_at<int64_t*>(tensor, 32, strides.data());
  }
  DLManagedTensorVersioned* managed() { return reinterpret_cast<DLManagedTensorVersioned*>(bytes); }
};

TEST(DLPack, ExportDescribesTheTensorsOwnMemory) {
  const Tensor x = tensor({0, 1, 2, 3, 4, 5}, {2, 3});
  DLManagedTensorVersioned* managed = to_dlpack(transpose(x, 0, 1));
  const auto* tensor = reinterpret_cast<const std::byte*>(managed) + versioned_tensor;
  EXPECT_EQ(read_at<uint32_t>(managed, 0), 1u);
  EXPECT_EQ(read_at<uint64_t>(managed, flags_offset), 0u);
  EXPECT_EQ(read_at<void*>(tensor, 0), x.raw_data());
  EXPECT_EQ(read_at<int32_t>(tensor, 8), 1) << "kDLCPU";
  EXPECT_EQ(read_at<int32_t>(tensor, 16), 2) << "ndim";
  EXPECT_EQ(read_at<uint8_t>(tensor, 20), 2) << "kDLFloat";
  EXPECT_EQ(read_at<uint8_t>(tensor, 21), 32) << "bits";
  EXPECT_EQ(read_at<uint16_t>(tensor, 22), 1) << "lanes";
  EXPECT_THAT(list_at(tensor, 24, 2), ElementsAre(3, 2));
  EXPECT_THAT(list_at(tensor, 32, 2), ElementsAre(1, 3));
  EXPECT_EQ(read_at<uint64_t>(tensor, 40), 0u);
  release(managed);
}

TEST(DLPack, ExportedMemoryOutlivesTheTensor) {
  DLManagedTensor* managed = nullptr;
  {
    const Tensor x = full({4}, 7, DType::f32);
    managed = to_dlpack_unversioned(x);
  }
  EXPECT_EQ(*read_at<const float*>(managed, 0), 7);
  read_at<void (*)(DLManagedTensor*)>(managed, 56)(managed);
}

TEST(DLPack, EveryTypeComesBackWithTheSameMemory) {
  for (DType dtype : all_dtypes) {
    const Tensor x = Tensor::empty({3, 5}, dtype);
    const Tensor y = from_dlpack(to_dlpack(x));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.raw_data(), x.raw_data()) << name(dtype);
  }
}

TEST(DLPack, ImportIsAViewThatGivesBackOnce) {
  Producer producer;
  {
    Tensor x = from_dlpack(producer.managed());
    EXPECT_EQ(x.raw_data(), producer.values.data());
    const Tensor row = select(x, 0, 1);
    x = Tensor();
    EXPECT_EQ(producer.released, 0) << "a view is left";
    EXPECT_EQ(sum(row).item(), 12);
    producer.values[3] = 103;
    EXPECT_EQ(sum(row).item(), 112);
  }
  EXPECT_EQ(producer.released, 1);
}

TEST(DLPack, ImportTakesStridesOffsetsAndReversedAxes) {
  Producer producer;
  producer.strides = {-3, 1};
  write_at<uint64_t>(producer.bytes + versioned_tensor, 40, 3 * sizeof(float));
  EXPECT_THAT(test::read(from_dlpack(producer.managed())), ElementsAre(3, 4, 5, 0, 1, 2));
  Producer dense;
  write_at<int64_t*>(dense.bytes + versioned_tensor, 32, nullptr);
  EXPECT_THAT(test::read(from_dlpack(dense.managed())), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(DLPack, WhatCannotBeTakenIsGivenBackAndSaid) {
  const auto refused = [](auto change, const char* words) {
    Producer producer;
    change(producer);
    EXPECT_THAT(test::error_of([&] { from_dlpack(producer.managed()); }), HasSubstr(words));
    EXPECT_EQ(producer.released, 1) << words;
  };
  refused([](Producer& p) { write_at<uint32_t>(p.bytes, 0, 2); }, "DLPack 2");
  refused([](Producer& p) { write_at<uint64_t>(p.bytes, flags_offset, 1); }, "read-only");
  refused([](Producer& p) { write_at<uint8_t>(p.bytes + versioned_tensor, 21, 128); }, "128 bits");
  refused([](Producer& p) { write_at<uint16_t>(p.bytes + versioned_tensor, 22, 4); }, "4 lanes");
  refused([](Producer& p) { write_at<int32_t>(p.bytes + versioned_tensor, 8, 7); },
          "device type 7");
  refused([](Producer& p) { write_at<int32_t>(p.bytes + versioned_tensor, 16, 99); }, "99");
}

TEST(FromBlob, IsAViewOfTheProgramsMemory) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    const Tensor x =
        from_blob(values.data(), {2, 3}, DType::f32, Device::cpu(), [&released] { ++released; });
    EXPECT_EQ(x.data<float>(), values.data());
    EXPECT_THAT(test::read(sum(x, 1)), ElementsAre(6, 15));
    const Tensor row = x[1];
    row.mutable_data<float>()[2] = 9;
    EXPECT_FALSE(x.is_sole_owner());
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(values[5], 9);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(from_blob(nullptr, {0, 3}).numel(), 0);
  EXPECT_THAT(test::error_of([] { from_blob(nullptr, {2}); }), HasSubstr("found null"));
  EXPECT_THAT(test::error_of([&] { from_blob(values.data(), {2}, DType::f32, Device::meta()); }),
              HasSubstr("meta"));
}

TEST(DLPack, RefusesToExportWhatHasNoPlainMemory) {
  EXPECT_THROW(to_dlpack(Tensor()), Error);
  EXPECT_THROW(to_dlpack(Tensor::empty({2}, DType::f32, Device::meta())), Error);
  Tensor leaf = full({2}, 1, DType::f32);
  leaf.set_requires_grad();
  EXPECT_THAT(test::error_of([&] { to_dlpack(leaf); }), HasSubstr("detach"));
}

}  // namespace
}  // namespace binade
