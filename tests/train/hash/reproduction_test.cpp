#include "binade/train/hash/reproduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/base/error.h"
#include "io/temporary_folder.h"

namespace binade::train {
namespace {

using ::testing::HasSubstr;

Reproduction sample_manifest() {
  const Link first = next_link("", 0, {.weights = 1, .moments = 2, .scales = 3, .data = 4});
  const Link second =
      next_link(first.digest, 100, {.weights = ~uint64_t{0}, .moments = 6, .scales = 7, .data = 8});
  return {.config = "[train]\nlr = 0.001\n",
          .origin = {.data = "10 + 2 tokens", .arithmetic = "cpu neon, NEON", .version = "0.1.0"},
          .tokenizer = "12 bytes",
          .steps = 150,
          .links = {first, second}};
}

TEST(Reproduction, ReadsBack) {
  const testing::TemporaryFolder folder;
  const Reproduction written = sample_manifest();
  const Reproduction read = read_reproduction(folder.put("manifest.json", to_json(written)));
  EXPECT_EQ(read.config, written.config);
  EXPECT_EQ(read.origin, written.origin);
  EXPECT_EQ(read.tokenizer, written.tokenizer);
  EXPECT_EQ(read.steps, 150);
  EXPECT_EQ(read.links, written.links);
  // --verify takes it in place of a run's folder.
  EXPECT_EQ(read_chain(folder / "manifest.json").links, written.links);
}

TEST(Reproduction, DamageAndForgeryAreRefused) {
  const testing::TemporaryFolder folder;
  const auto refusal = [&folder](const std::string& text) {
    try {
      read_reproduction(folder.put("bad.json", text));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  std::string damaged = to_json(sample_manifest());
  damaged.replace(damaged.find("0.001"), 5, "0.002");
  EXPECT_THAT(refusal(damaged), HasSubstr("checksum"));
  Reproduction forged = sample_manifest();
  forged.links[1].state.weights = 5;
  EXPECT_THAT(refusal(to_json(forged)), HasSubstr("breaks at step 100"));
  forged = sample_manifest();
  std::swap(forged.links[0], forged.links[1]);
  EXPECT_THAT(refusal(to_json(forged)), HasSubstr("breaks at step 100"));
}

}  // namespace
}  // namespace binade::train
