#include "binade/train/report/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "binade/base/error.h"
#include "binade/base/json.h"
#include "binade/ops/create/create.h"
#include "binade/train/run/loop.h"
#include "io/temporary_folder.h"
#include "support/error_of.h"
#include "train/small_run.h"

namespace binade::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using testing::TemporaryFolder;

TEST(Inspect, TellsOfEveryTensor) {
  const TemporaryFolder folder;
  io::save_safetensors(folder / "x.safetensors", {{"a", tensor({1, 2, 0, -4}, {2, 2})},
                                                  {"b", tensor({0.5, NAN}, {2}, DType::bf16)},
                                                  {"n", arange(3)}});
  const Inspection found = inspect(folder / "x.safetensors");
  EXPECT_THAT(found.tensors, SizeIs(3));
  const std::string text = inspection_text(found, true);
  EXPECT_THAT(text,
              AllOf(HasSubstr("F32"), HasSubstr("[2, 2]"), HasSubstr("25.00%"), HasSubstr("50.00%"),
                    HasSubstr("2^-1 "), HasSubstr("#"), HasSubstr("non-finite")));
  EXPECT_THAT(inspection_text(found, false), Not(HasSubstr("2^")));
  const json::Document parsed = json::parse(inspection_json(found), {});
  for (const json::Value& one : parsed.root().at("tensors").array()) {
    if (one.at("name").string() != "a") continue;
    EXPECT_EQ(one.at("min").number(), -4);
    EXPECT_EQ(one.at("zeros").number(), 1);
    const json::Value& exponents = one.at("exponents");
    EXPECT_EQ(exponents.object().size(), 3u);
    for (const char* power : {"0", "1", "2"}) EXPECT_EQ(exponents.at(power).number(), 1) << power;
  }
  EXPECT_THAT(inspect(folder / "x.safetensors", "b").tensors, SizeIs(1));
  EXPECT_THAT(test::error_of([&] { inspect(folder / "x.safetensors", "zz"); }),
              HasSubstr("\"zz\""));
}

TEST(Inspect, ShowsNamesThatATerminalWouldObey) {
  const TemporaryFolder folder;
  io::save_safetensors(folder / "x.safetensors", {{"a\x1b[2Jb", tensor({1, 2}, {2})}});
  const std::string text = inspection_text(inspect(folder / "x.safetensors"), false);
  EXPECT_THAT(text, AllOf(HasSubstr("a\\x1b[2Jb"), Not(HasSubstr("\x1b"))));
}

TEST(Inspect, TheTailOfAHistogramIsOneRow) {
  const TemporaryFolder folder;
  const Tensor x = full({100'000}, 1);
  for (int i = 0; i < 5; ++i)
    x.mutable_data<float>()[i] = static_cast<float>(std::ldexp(1.0, -20 - i));
  io::save_safetensors(folder / "x.safetensors", {{"x", x}});
  const std::string text = inspection_text(inspect(folder / "x.safetensors"), true);
  EXPECT_THAT(text, AllOf(HasSubstr("2^0"), HasSubstr("below"), HasSubstr("<0.01%")));
  EXPECT_THAT(text, Not(HasSubstr("2^-2")));
}

// Numbers made by hand, every one of them different.
Inspection made_inspection() {
  Inspection made{.path = "x.safetensors", .kind = "safetensors", .bytes = 12'345'678};
  io::Statistics one;
  one.count = 1000;
  one.zeros = 100, one.subnormals = 20, one.infinities = 3, one.nans = 4;
  one.min = -2.5, one.max = 7.25, one.mean = 0.125, one.deviation = 1.5;
  one.exponents = {{-30, 1}, {-3, 200}, {0, 400}, {2, 100}};
  made.tensors.push_back(
      {.file = "x.safetensors",
       .entry = {.name = "a", .format = "F32", .shape = {10, 100}, .bytes = 4000},
       .numbers = one});
  return made;
}

TEST(Inspect, ARowHasEachNumberInItsColumn) {
  Inspection made = made_inspection();
  EXPECT_EQ(inspection_text(made, false),
            "x.safetensors: safetensors, 12 MB\n\n"
            "tensor  dtype       shape    size       min       max      mean       std   zeros "
            "subnormal non-finite\n"
            "a       F32     [10, 100]  4.0 kB      -2.5      7.25     0.125       1.5  10.00%     "
            "2.00%      0.70%\n");
  // The largest binade first; 40 signs for the commonest, and one at least.
  const std::string text = inspection_text(made, true);
  EXPECT_THAT(text,
              HasSubstr("       2^2 " + std::string(10, '#') + std::string(30, ' ') + " 10.00%\n" +
                        "           2^0 " + std::string(40, '#') + " 40.00%\n" + "          2^-3 " +
                        std::string(20, '#') + std::string(20, ' ') + " 20.00%\n" +
                        "         2^-30 #" + std::string(39, ' ') + " 0.10%\n"));
  // One in ten thousand is worth a row, less is not; a sum that reaches it ends the tail.
  made.tensors[0].numbers.count = 10'000;
  EXPECT_THAT(inspection_text(made, true), HasSubstr("2^-30 "));
  made.tensors[0].numbers.count = 10'001;
  EXPECT_THAT(inspection_text(made, true),
              AllOf(Not(HasSubstr("2^-30 ")), HasSubstr("         below #"), HasSubstr("<0.01%")));
  made.tensors[0].numbers.exponents[-29] = 1;
  EXPECT_THAT(inspection_text(made, true), AllOf(HasSubstr("below"), HasSubstr("2^-29 ")));
}

TEST(Inspect, SeveralFilesAreNamedAndAddedUp) {
  Inspection made = made_inspection();
  made.tensors.push_back(made.tensors[0]);
  made.tensors[1].entry.name = "a longer name";
  EXPECT_THAT(inspection_text(made, false), Not(HasSubstr("\nx.safetensors\n")));  // one file
  EXPECT_THAT(inspection_text(made, false),
              HasSubstr("\nall                         2000  8.0 kB"));
  made.tensors[1].file = "y.safetensors";
  made.tensors.push_back(made.tensors[1]);
  const std::string text = inspection_text(made, false);
  EXPECT_THAT(text, HasSubstr("\nx.safetensors\na  "));
  EXPECT_THAT(text, HasSubstr("\ny.safetensors\na longer name  "));
  EXPECT_EQ(text.find("y.safetensors"), text.rfind("y.safetensors"));  // once
}

TEST(Inspect, JsonHasEveryNumber) {
  const json::Document parsed = json::parse(inspection_json(made_inspection()), {});
  EXPECT_EQ(parsed.root().at("bytes").number(), 12'345'678);
  const json::Value& one = parsed.root().at("tensors").array()[0];
  const std::pair<const char*, double> numbers[] = {
      {"bytes", 4000}, {"count", 1000}, {"min", -2.5},      {"max", 7.25},     {"mean", 0.125},
      {"std", 1.5},    {"zeros", 100},  {"subnormals", 20}, {"infinities", 3}, {"nans", 4}};
  for (const auto& [name, value] : numbers) EXPECT_EQ(one.at(name).number(), value) << name;
  EXPECT_EQ(one.at("shape").array()[1].number(), 100);
  EXPECT_EQ(one.at("exponents").at("-3").number(), 200);
  EXPECT_EQ(one.at("file").string(), "x.safetensors");
  EXPECT_EQ(one.at("dtype").string(), "F32");
}

TEST(Inspect, ReadsRunsAndCheckpoints) {
  const TemporaryFolder folder;
  Config config = small_config();
  config.data.source = folder.put("text.txt", small_text()).string();
  config.run.out = (folder / "run").string();
  const RunResult run = train::run(config, Progress::Mode::quiet);
  const Inspection found = inspect(folder / "run");
  EXPECT_EQ(found.path, run.checkpoint.string());
  EXPECT_THAT(found.kind, HasSubstr("manifest"));
  const std::string text = inspection_text(found, false);
  EXPECT_THAT(text, AllOf(HasSubstr("\nmodel.safetensors\n"), HasSubstr("\ntrainer.safetensors\n"),
                          HasSubstr("wte.weight"), HasSubstr("\nall")));
  std::filesystem::resize_file(run.checkpoint / "model.safetensors", 100);
  EXPECT_THAT(test::error_of([&] { inspect(folder / "run"); }), HasSubstr("model.safetensors"));
}

TEST(Inspect, ReadsTokenFiles) {
  const TemporaryFolder folder;
  const std::string ids("\x01\x00\x02\x00\x01\x00", 6);
  const Inspection plain = inspect(folder.put("a.bin", ids));
  ASSERT_TRUE(plain.tokens);
  EXPECT_EQ(plain.tokens->count, 3);
  EXPECT_THAT(inspection_text(plain, false),
              AllOf(HasSubstr("16 bits"), HasSubstr("1 to 2, 2 different"), HasSubstr("66.67%")));
  std::string header(1024, '\0');
  const int32_t words[] = {20240801, 7, 2};
  std::memcpy(header.data(), words, sizeof words);
  const Inspection shard =
      inspect(folder.put("b.bin", header + std::string("\x01\x00\x00\x00\x02\x00\x01\x00", 8)));
  EXPECT_THAT(shard.kind, AllOf(HasSubstr("llm.c"), HasSubstr("32 bits")));
  const json::Document parsed = json::parse(inspection_json(shard), {});
  EXPECT_EQ(parsed.root().at("tokens").at("largest").number(), 65538);
}

// Without the extension a file is known by the length of its header and a brace: nine bytes.
TEST(Inspect, KnowsSafetensorsByTheirBeginning) {
  const TemporaryFolder folder;
  const std::string length("\x01\0\0\0\0\0\0\0", 8);
  const auto refusal = [&](const std::string& content) {
    const auto path = folder.put("file", content);
    return test::error_of([&] { inspect(path); });
  };
  EXPECT_THAT(refusal(length + "{"), Not(HasSubstr("something else")));
  EXPECT_THAT(refusal(length + "["), HasSubstr("something else"));
  EXPECT_THAT(refusal(length), HasSubstr("something else"));
  EXPECT_THAT(refusal(std::string("\x09\0\0\0\0\0\0\0", 8) + "{"), HasSubstr("something else"));
}

TEST(Inspect, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  EXPECT_THROW(inspect(folder / "none.safetensors"), Error);
  EXPECT_THAT(test::error_of([&] { inspect(folder.path()); }), HasSubstr("none in it"));
  EXPECT_THAT(test::error_of([&] { inspect(folder.put("a.txt", "hello, world")); }),
              HasSubstr("something else"));
}

}  // namespace
}  // namespace binade::train
