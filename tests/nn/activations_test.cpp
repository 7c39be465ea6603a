#include "binade/nn/activations.h"

#include <gtest/gtest.h>

namespace binade::nn {
namespace {

// One letter for each of five blocks: k, l or r.
std::string blocks_of(const Activations& activations) {
  std::string blocks;
  for (int64_t block = 0; block < 5; ++block)
    blocks += activations.recomputes(block, 5) ? 'r' : activations.keeps(block, 5) ? 'k' : 'l';
  return blocks;
}

TEST(Activations, TextsSayWhatEachBlockKeeps) {
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"keep", "kkkkk", "keep"},
      {"lean", "lllll", "lean"},
      {"recompute", "rrrrr", "recompute"},
      {"keep = 2", "rrrkk", "keep = 2"},
      {"2", "rrrkk", "keep = 2"},
      {"0", "rrrrr", "recompute"},
      {"lean = 1", "rrrrl", "lean = 1"},
      {"keep = 1, lean = 3", "rlllk", "keep = 1, lean = 3"},
      {" keep=2 ,  lean ", "lllkk", "keep = 2, lean"},
      {"keep = 0, lean", "lllll", "lean"},
      {"keep = 9", "kkkkk", "keep = 9"},
      {"keep = 4, lean = 9", "lkkkk", "keep = 4, lean = 9"}};
  for (const auto& [text, blocks, written] : cases) {
    const auto parsed = parse_activations(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(blocks_of(*parsed), blocks) << text;
    EXPECT_EQ(to_text(*parsed), written) << text;
    EXPECT_EQ(parse_activations(written), parsed) << text;
  }
}

TEST(Activations, OtherTextsAreNone) {
  for (const char* text :
       {"", " ", "auto", "kept", "keep2", "keep = -1", "keep = 2.5", "keep 2", "keep,", ",lean",
        "keep, lean", "lean, keep", "keep = 1, lean = 1, keep = 1", "recompute 2",
        "keep = 99999999999", "keep =", "keep = = 2", "-1"})
    EXPECT_FALSE(parse_activations(text)) << text;
}

TEST(Activations, ModelsAreLeanUnlessTold) {
  EXPECT_EQ(to_text(Activations{}), "lean");
  EXPECT_EQ(to_text(Activations::keep()), "keep");
  EXPECT_EQ(to_text(Activations::recompute()), "recompute");
}

}  // namespace
}  // namespace binade::nn
