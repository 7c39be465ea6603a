#include "binade/lab/torch_diff/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "binade/ops/create/create.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::lab {
namespace {

using test::error_of;
using ::testing::HasSubstr;

struct Parts {
  StateDict tensors;
  io::Metadata metadata;
};

// A recording of one module with one parameter.
Parts small_recording() {
  Parts parts;
  parts.tensors["tokens"] = arange(6).view({2, 3});
  parts.tensors["value/00000/embed/embedding"] = ones({2, 3, 4});
  parts.tensors["value/00001/head/linear"] = ones({2, 3, 5}, DType::bf16);
  parts.tensors["gradient/00001/head/linear"] = ones({2, 3, 5}, DType::bf16);
  parts.tensors["weight/head.weight"] = ones({20});
  parts.metadata = {
      {"binade_recording", "1"},
      {"records",
       R"([{"op":"embedding","module":"embed"},{"op":"linear","module":"head","from":[0],)"
       R"("outputs":["head",""],"function":"forward","line":"model.py:7"}])"},
      {"weights", R"({"head.weight":{"shape":[5,4],"checksum":"00000000000000ff"}})"},
      {"random", "[]"},
      {"skipped", R"(["00002/a/b"])"}};
  return parts;
}

class TorchRecordingTest : public ::testing::Test {
 protected:
  TorchRecording written(const Parts& parts) const {
    io::save_safetensors(folder_ / "r.safetensors", parts.tensors, parts.metadata);
    return TorchRecording(folder_ / "r.safetensors");
  }
  std::string refusal(const std::function<void(Parts&)>& damage) const {
    Parts parts = small_recording();
    damage(parts);
    return error_of([&] { written(parts); });
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(TorchRecordingTest, EveryFactIsRead) {
  const TorchRecording recording = written(small_recording());
  ASSERT_EQ(recording.results().size(), 2u);
  const RecordedResult& last = recording.results()[1];
  EXPECT_EQ(last.module, "head");
  EXPECT_EQ(last.outputs, (std::vector<std::string>{"head", ""}));
  EXPECT_EQ(last.from, std::vector<int64_t>{0});
  EXPECT_EQ(last.line, "model.py:7");
  EXPECT_EQ(last.gradient, "gradient/00001/head/linear");
  EXPECT_EQ(recording.weights().at("head.weight").checksum, 255u);
  EXPECT_EQ(recording.weights().at("head.weight").shape, (Shape{5, 4}));
  EXPECT_EQ(recording.skipped(), std::vector<std::string>{"00002/a/b"});
  EXPECT_TRUE(recording.has_gradients());
  EXPECT_FALSE(recording.targets().defined());
  EXPECT_EQ(recording.roundoff(), 0x1p-8);  // of bf16
}

TEST_F(TorchRecordingTest, AMissingGradientIsZeroOnlyIfOneWasExpected) {
  Parts parts = small_recording();
  parts.metadata["records"] = R"([{"op":"embedding","no_gradient":true},{"op":"linear"}])";
  const TorchRecording recording = written(parts);
  EXPECT_EQ(to_vector(recording.gradient_of(recording.results()[0])), std::vector<double>(24));
  EXPECT_FALSE(recording.gradient_of(recording.weights().at("head.weight")).defined());
}

TEST_F(TorchRecordingTest, DamageIsNamed) {
  const auto metadata = [this](const char* key, const char* text) {
    return refusal([=](Parts& parts) { parts.metadata[key] = text; });
  };
  EXPECT_THAT(refusal([](Parts& parts) { parts.metadata.erase("binade_recording"); }),
              HasSubstr("expected a recording of a torch model"));
  EXPECT_THAT(metadata("binade_recording", "2"), HasSubstr("version 2"));
  EXPECT_THAT(metadata("records", "[{"), HasSubstr("r.safetensors"));
  EXPECT_THAT(metadata("records", R"([{"op":"a"},{"op":"b","from":[1]}])"), HasSubstr("from"));
  EXPECT_THAT(metadata("records", R"([{"op":"a"}])"), HasSubstr("tensors of its 1 results"));
  EXPECT_THAT(metadata("weights", R"({"head.weight":{"shape":[5,4],"checksum":"xyz"}})"),
              HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(metadata("weights", "{}"), HasSubstr("tensors of a recording"));
  EXPECT_THAT(refusal([](Parts& parts) { parts.tensors["value/00001/again"] = ones({1}); }),
              HasSubstr("one tensor for each result"));
  EXPECT_THAT(refusal([](Parts& parts) { parts.tensors.erase("weight/head.weight"); }),
              HasSubstr("weight/head.weight"));
}

TEST_F(TorchRecordingTest, TokensAreNeeded) {
  EXPECT_THAT(refusal([](Parts& parts) { parts.tensors.erase("tokens"); }),
              HasSubstr("expected tokens [batch, tokens], found none; record it again"));
  EXPECT_THAT(refusal([](Parts& parts) {
                parts.tensors["tokens"] = ones({2, 3});
              }),
              HasSubstr("I64"));
  EXPECT_THAT(refusal([](Parts& parts) { parts.tensors["targets"] = arange(6); }),
              HasSubstr("targets I64"));
  EXPECT_THAT(refusal([](Parts& parts) {
                parts.tensors["targets"] = arange(6).view({3, 2});
              }),
              HasSubstr("expected targets [2, 3]"));
}

TEST(WeightChecksum, DependsOnEveryElementAndItsPlace) {
  const Tensor x = arange(100, DType::f32);
  const uint64_t sum = weight_checksum(x);
  Tensor swapped = x.clone();
  swapped.mutable_data<float>()[3] = 4;
  swapped.mutable_data<float>()[4] = 3;
  EXPECT_NE(weight_checksum(swapped), sum);
  // As binade.torch.record computes it: (bits + 1) * (2 * index + 1).
  EXPECT_EQ(weight_checksum(tensor({0.0, 1.0}, {2})), 1 + (uint64_t{0x3f800000} + 1) * 3);
  EXPECT_EQ(weight_checksum(tensor({0.0, 1.0}, {2}, DType::bf16)), 1u + (0x3f80u + 1) * 3);
}

}  // namespace
}  // namespace binade::lab
