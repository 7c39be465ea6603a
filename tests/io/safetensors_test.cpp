#include "binade/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "binade/ops/create/create.h"
#include "binade/ops/shape/shape.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"

namespace binade::io {
namespace {

using ::binade::testing::content_of;
using ::binade::testing::golden;
using ::binade::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Bytes 0, 1, 2, ... (0 and 1 in turn for bool) as a tensor of any type.
Tensor counting(const Shape& shape, DType dtype) {
  Tensor tensor = Tensor::empty(shape, dtype);
  auto* bytes = static_cast<unsigned char*>(tensor.raw_data());
  for (int64_t i = 0; i < tensor.bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : i);
  return tensor;
}

// 0, 1, 2, ... as numbers (0, 1, 1, ... for bool).
Tensor numbers(const Shape& shape, DType dtype) {
  Tensor tensor = Tensor::empty(shape, dtype);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.mutable_data<T>()[i] = static_cast<T>(static_cast<float>(i));
  });
  return tensor;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.numel() == 0 ||
          std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.bytes())) == 0);
}

TEST(Safetensors, EveryTypeComesBackBitForBit) {
  const TemporaryFolder folder;
  StateDict tensors;
  for (const DType dtype : all_dtypes) {
    tensors[std::string(name(dtype)) + ".matrix"] = counting({3, 5}, dtype);
    tensors[std::string(name(dtype)) + ".scalar"] = counting({}, dtype);
    tensors[std::string(name(dtype)) + ".empty"] = counting({2, 0, 3}, dtype);
    tensors[std::string(name(dtype)) + ".deep"] = counting({1, 2, 1, 1, 3, 1, 1, 2}, dtype);
  }
  save_safetensors(folder / "all.safetensors", tensors);
  const StateDict read = load_safetensors(folder / "all.safetensors");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bytes(tensor, read.at(name))) << name;
}

TEST(Safetensors, EmptyDictionaryIsAFile) {
  const TemporaryFolder folder;
  save_safetensors(folder / "none.safetensors", {});
  EXPECT_TRUE(load_safetensors(folder / "none.safetensors").empty());
}

TEST(Safetensors, DataIsAlignedAndOrderedByWidthThenName) {
  const TemporaryFolder folder;
  const StateDict tensors = {{"a", counting({3}, DType::u8)},     {"b", counting({3}, DType::f16)},
                             {"c", counting({3}, DType::f64)},    {"d", counting({1}, DType::i64)},
                             {"e", counting({5}, DType::f32)},    {"f", counting({3}, DType::bf16)},
                             {"g", counting({1}, DType::boolean)}};
  save_safetensors(folder / "mixed.safetensors", tensors);
  const SafetensorsFile file(folder / "mixed.safetensors");
  std::string order;
  for (const TensorEntry& entry : file.entries()) {
    order += entry.name;
    EXPECT_EQ(entry.offset % static_cast<int64_t>(size_of(*entry.dtype)), 0) << entry.name;
  }
  EXPECT_EQ(order, "cdebfag");
  EXPECT_EQ(file.entries()[0].offset % 8, 0);
}

TEST(Safetensors, ViewsAreWrittenAsTheyLook) {
  const TemporaryFolder folder;
  const Tensor matrix = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  save_safetensors(folder / "views.safetensors", {{"t", transpose(matrix, 0, 1)},
                                                  {"row", slice(matrix, 0, 1, 2)},
                                                  {"wide", expand(tensor({7}, {1}), {4})}});
  const StateDict read = load_safetensors(folder / "views.safetensors");
  EXPECT_EQ(read.at("t").shape(), (Shape{3, 2}));
  EXPECT_THAT(to_vector(read.at("t")), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(to_vector(read.at("row")), ElementsAre(4, 5, 6));
  EXPECT_THAT(to_vector(read.at("wide")), ElementsAre(7, 7, 7, 7));
}

TEST(Safetensors, MetadataIsKept) {
  const TemporaryFolder folder;
  save_safetensors(folder / "m.safetensors", {},
                   {{"step", "12"}, {"note", "a \"quote\"\n\xC3\xA9"}});
  const SafetensorsFile file(folder / "m.safetensors");
  EXPECT_THAT(file.metadata(), UnorderedElementsAre(Pair("format", "pt"), Pair("step", "12"),
                                                    Pair("note", "a \"quote\"\n\xC3\xA9")));
}

TEST(Safetensors, NamesMayHoldAnything) {
  const TemporaryFolder folder;
  const StateDict tensors = {{"", counting({1}, DType::u8)},
                             {"a\"b\\c\n\x01", counting({2}, DType::u8)},
                             {"\xE2\x82\xAC", counting({3}, DType::u8)}};
  save_safetensors(folder / "names.safetensors", tensors);
  const StateDict read = load_safetensors(folder / "names.safetensors");
  ASSERT_EQ(read.size(), 3u);
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(same_bytes(tensor, read.at(name))) << name;
}

TEST(Safetensors, ReadsOneTensorAtATime) {
  const SafetensorsFile file(golden("optim.safetensors"));
  const int64_t before = memory::allocated();
  const TensorEntry* entry = file.find("start0");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->format, "F32");
  EXPECT_EQ(entry->dtype, DType::f32);
  EXPECT_THAT(entry->shape, ElementsAre(5, 3));
  EXPECT_EQ(memory::allocated(), before);
  EXPECT_EQ(file.load("start0").bytes(), 60);
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THAT(test::error_of([&] { file.load("absent"); }),
              HasSubstr("expected a tensor \"absent\""));
}

// Written by the Python package (tests/golden/interop.py).
TEST(Safetensors, ReadsWhatPythonWrote) {
  const SafetensorsFile file(golden("interop_python.safetensors"));
  EXPECT_THAT(file.metadata(),
              UnorderedElementsAre(Pair("format", "pt"), Pair("made by", "python")));
  const auto values = [&](const char* name) { return to_vector(file.load(name)); };
  EXPECT_THAT(values("F64"), ElementsAre(-1.5, 0.1, 1e300));
  EXPECT_THAT(values("F32"), ElementsAre(-1.5, 0.25, 3));
  EXPECT_THAT(values("F16"), ElementsAre(-1.5, 0x1p-24, 65504));
  EXPECT_THAT(values("BF16"), ElementsAre(-1.5, 0x1p-133, 3.0));
  EXPECT_THAT(values("F8_E4M3"), ElementsAre(-1.5, 0x1p-9, 448));
  EXPECT_THAT(values("F8_E5M2"), ElementsAre(-1.5, 0x1p-16, 57344));
  EXPECT_THAT(values("I64"), ElementsAre(-3, 0, 0x1p53));
  EXPECT_THAT(values("I32"), ElementsAre(-3, 0, 2147483647));
  EXPECT_THAT(values("U8"), ElementsAre(0, 7, 255));
  EXPECT_THAT(values("BOOL"), ElementsAre(1, 0, 1));
  EXPECT_EQ(file.load("scalar").rank(), 0);
  EXPECT_EQ(file.load("empty").shape(), (Shape{2, 0, 3}));
  for (const char* name : {"I8", "I16", "U16", "U32", "U64"}) {
    ASSERT_NE(file.find(name), nullptr) << name;
    EXPECT_EQ(file.find(name)->format, name);
    EXPECT_FALSE(file.find(name)->dtype.has_value());
    EXPECT_THAT(test::error_of([&] { file.load(name); }),
                HasSubstr("found " + std::string(name) + ", which Binade has no tensors of"));
  }
}

// interop_binade.safetensors was written by the lines below and read by the Python package, which
// found the values meant; the same lines still write the same bytes.
TEST(Safetensors, WritesTheBytesThatPythonReads) {
  const TemporaryFolder folder;
  StateDict tensors;
  for (const DType dtype : all_dtypes) tensors[std::string(name(dtype))] = numbers({2, 3}, dtype);
  tensors["scalar"] = tensor({0.1}, {}, DType::f64);
  tensors["empty"] = zeros({2, 0, 3});
  tensors["\xC3\xA9/\"name\""] = tensor({1, 0}, {2}, DType::boolean);
  save_safetensors(folder / "interop.safetensors", tensors, {{"made by", "binade"}});
  EXPECT_EQ(content_of(folder / "interop.safetensors"),
            content_of(golden("interop_binade.safetensors")));
}

TEST(Safetensors, EveryGoldenFileOpens) {
  for (const char* name :
       {"ops", "optim", "modules", "gpt2_run", "llama_run", "resnet_run", "fp8"}) {
    const auto path = golden(std::string(name) + ".safetensors");
    const SafetensorsFile file(path);
    int64_t bytes = 0;
    for (const TensorEntry& entry : file.entries()) bytes += file.load(entry).bytes();
    ASSERT_FALSE(file.entries().empty());
    EXPECT_EQ(file.entries()[0].offset + bytes,
              static_cast<int64_t>(std::filesystem::file_size(path)));
    EXPECT_TRUE(file.metadata().contains("oracle")) << name;
  }
}

TEST(Safetensors, RefusesToWriteWhatIsNoData) {
  const TemporaryFolder folder;
  folder.put("kept.safetensors", "old");
  const auto save = [&](const StateDict& tensors) {
    save_safetensors(folder / "kept.safetensors", tensors);
  };
  const std::pair<std::string, Tensor> refused[] = {
      {"undefined", Tensor()},
      {"meta", zeros({2}, DType::f32, Device::meta())},
      {"__metadata__", zeros({2})}};
  for (const auto& [name, tensor] : refused)
    EXPECT_THAT(test::error_of([&] {
                  save({{"a", zeros({2})}, {name, tensor}});
                }),
                ::testing::AllOf(HasSubstr("tensors with data"), HasSubstr(name)));
  EXPECT_THROW(save({{"\xFF", zeros({2})}}), Error);
  EXPECT_EQ(content_of(folder / "kept.safetensors"), "old");
}

TEST(TensorStore, ReadsShards) {
  const TemporaryFolder folder;
  save_safetensors(folder / "one.safetensors",
                   {{"a", tensor({1, 2}, {2})}, {"unlisted", tensor({9}, {1})}});
  save_safetensors(folder / "two.safetensors", {{"b", tensor({3}, {1})}, {"c", tensor(4.0)}});
  const auto index = folder.put(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":16},"weight_map":{"a":"one.safetensors","c":"two.safetensors","b":"two.safetensors"}})");
  const TensorStore store(index);
  ASSERT_EQ(store.entries().size(), 3u);
  EXPECT_THAT(to_vector(store.load("a")), ElementsAre(1, 2));
  EXPECT_THAT(to_vector(store.load("b")), ElementsAre(3));
  EXPECT_THAT(to_vector(store.load("c")), ElementsAre(4));
  EXPECT_THROW(store.load("unlisted"), Error);
  EXPECT_THAT(to_vector(TensorStore(folder / "two.safetensors").load("b")), ElementsAre(3));
}

}  // namespace
}  // namespace binade::io
