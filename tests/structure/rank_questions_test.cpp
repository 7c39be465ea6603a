#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "structure/source_tree.h"

// One process is one rank of one: code outside of ranks/ trains without asking whether there are
// others, which of them it is or how many.
namespace binade::structure {
namespace {

// What is about processes themselves: who speaks, what they may share, and what a person is shown.
const std::vector<std::string> about_processes = {
    "cli/on_ranks.cpp",  // what ails all ranks is reported once
    "cli/on_ranks.cpp",
    "cli/reproduce.cpp",  // what rank 0 alone compares and prints
    "cli/train.cpp",      // what rank 0 alone prints and reports
    "cli/train.cpp",
    "cli/train.cpp",
    "cli/train.cpp",
    "cli/train.cpp",
    "lab/rank_plan.cpp",            // a plan for one rank is the forecast of one process
    "train/hash/trainer_hash.cpp",  // the elements that this rank hashes, and the sum of all ranks'
    "train/hash/trainer_hash.cpp",
    "train/trainer_state.cpp",  // one rank holds the sum so far
    "train/trainer_state.cpp",  // the weights that each rank writes
    "train/trainer_state.cpp",
    "train/trainer_state.cpp",
    "train/trainer_state.cpp",
    "train/run/check.cpp",   // settings that many ranks exclude
    "train/run/check.cpp",   // and devices
    "train/run/follow.cpp",  // the cores of a machine with several ranks
    "train/run/follow.cpp",
    "train/run/loop.cpp",          // rank 0 leads, the others follow
    "train/run/introduction.cpp",  // the first lines of a run
    "train/run/introduction.cpp",
    "train/run/recorder.cpp",        // the progress line
    "train/memory/forecast.cpp",     // rounds of micro-batches until all ranks have had some
    "train/memory/arrangement.cpp",  // the memory of a machine with several ranks
    "train/memory/arrangement.cpp",  // a forecast of this rank
    "train/memory/arrangement.cpp",
    "train/run/progress.cpp",  // the progress line
    "train/trainer.cpp",       // rank 0 announces what it does
    "train/trainer.cpp",       // its elements, its micro-batches, its loader's
    "train/trainer.cpp",
    "train/trainer.cpp",
    "train/trainer.cpp",  // the pieces that it audits
};

size_t rank_questions_in(const std::string& text) {
  static const std::regex question(
      R"((^|[^.\w])ranks_?(->|\.)(size|rank|local_size|local_rank)\(\))"
      R"(|\branks\(\)\.(size|rank|local_size|local_rank)\(\))"
      R"(|\branks_?(\(\))? (==|!=|<|>|<=|>=) (1|nullptr)\b)"
      R"(|\bis_alone\(\)|\bplace\(ranks::Group|\bhas_ranks\b)");
  const std::string code = without_comments(text);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(code.begin(), code.end(), question), {}));
}

TEST(RankQuestions, OutsideOfRanksAreAboutProcessesThemselves) {
  std::vector<std::string> found;
  for (const std::string& file : files_under("src/binade", {".h", ".cpp"})) {
    const std::string path = file.substr(std::string("src/").size());
    if (component_of(path) == "ranks") continue;
    found.insert(found.end(), rank_questions_in(read_source(file)),
                 path.substr(std::string("binade/").size()));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(about_processes))
      << "let a member of ranks/ do it, and nothing where a rank is alone";
}

TEST(RankQuestions, AreCounted) {
  EXPECT_EQ(rank_questions_in("if (ranks_ == nullptr || ranks->size() == 1) f(x.ranks().rank());"),
            3u);
  EXPECT_EQ(rank_questions_in("run.ranks.size();  // ranks == 1"), 0u);
  EXPECT_EQ(rank_questions_in("const bool has_ranks = ranks != nullptr;"), 2u);
}

}  // namespace
}  // namespace binade::structure
