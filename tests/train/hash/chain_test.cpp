#include "binade/train/hash/chain.h"

#include <gtest/gtest.h>

#include <fstream>

#include "binade/base/error.h"
#include "binade/train/run/metrics.h"
#include "io/temporary_folder.h"

namespace binade::train {
namespace {

const StateHash hash_one = {.weights = 1, .moments = 0xfedcba9876543210, .scales = 3, .data = 4};
const StateHash hash_two = {.weights = 1, .moments = 2, .scales = 5, .data = 4};

Record record_with(const std::optional<Link>& link, int64_t step) {
  Record record;
  record.step = step;
  record.link = link;
  return record;
}

std::vector<Link> three_links() {
  const Link first = next_link("", 0, hash_one), second = next_link(first.digest, 100, hash_two);
  return {first, second, next_link(second.digest, 200, hash_one)};
}

Chain chain_of(const std::vector<Link>& links) {
  const testing::TemporaryFolder folder;
  std::string text;
  for (const Link& link : links) {
    text += to_json(record_with(link, link.step)) + "\n";
    text += to_json(record_with({}, link.step + 1)) + "\n";
  }
  return read_chain(folder.put("metrics.jsonl", text).parent_path());
}

TEST(Chain, NamesThePartsThatDiffer) {
  EXPECT_EQ(differing_parts(hash_one, hash_one), "");
  EXPECT_EQ(differing_parts(hash_one, hash_two), "moments, scales");
}

TEST(Chain, TextsReadBack) {
  EXPECT_EQ(to_text(hash_one),
            "weights 0000000000000001, moments fedcba9876543210, scales 0000000000000003, data "
            "0000000000000004");
  EXPECT_EQ(parse_state_hash(to_text(hash_one)), hash_one);
  for (const char* bad : {"", "weights 1", "weights 0000000000000001", "moments 0000000000000001"})
    EXPECT_FALSE(parse_state_hash(bad)) << bad;
  EXPECT_FALSE(parse_state_hash(to_text(hash_one) + "0"));
  const std::string digest = next_link("", 0, hash_one).digest;
  const auto name = parse_link_name(to_text(LinkName{300, digest}));
  ASSERT_TRUE(name);
  EXPECT_EQ(name->step, 300);
  EXPECT_EQ(name->digest, digest);
  const std::vector<std::string> bad_names = {"", "step 3", "step -1, digest " + digest,
                                              "step 1, digest 0"};
  for (const std::string& bad : bad_names) EXPECT_FALSE(parse_link_name(bad)) << bad;
}

TEST(Chain, ALogKeepsItsLinks) {
  const Chain chain = chain_of(three_links());
  EXPECT_EQ(chain.links, three_links());
  EXPECT_TRUE(chain.broken.empty());
  ASSERT_NE(chain.at(100), nullptr);
  EXPECT_EQ(chain.at(100)->state, hash_two);
  EXPECT_EQ(chain.at(101), nullptr);
}

// A link covers its step, its state, and all links before it.
TEST(Chain, AForgedLinkBreaksIt) {
  std::vector<Link> links = three_links();
  links[1].state.weights ^= 1;
  EXPECT_EQ(chain_of(links).broken, std::vector<int64_t>{100});
  links = three_links();
  links[1] = next_link(links[0].digest, 100, hash_one);
  EXPECT_EQ(chain_of(links).broken, std::vector<int64_t>{200});
  links = three_links();
  links[1].step = 99;
  EXPECT_EQ(chain_of(links).broken, std::vector<int64_t>{99});
  links = three_links();
  links.erase(links.begin());
  EXPECT_EQ(chain_of(links).broken, std::vector<int64_t>{100});
}

TEST(Chain, RefusesWhatIsNoHash) {
  const std::string line = to_json(record_with(three_links()[0], 0));
  for (const auto& [from, to] : {std::pair{"\"0000000000000001\"", "\"1\""},
                                 std::pair{"\"fedcba9876543210\"", "\"fedcba987654321g\""},
                                 std::pair{"\"fedcba9876543210\"", "7"}}) {
    const testing::TemporaryFolder folder;
    std::string bad = line;
    bad.replace(bad.find(from), std::string(from).size(), to);
    int64_t damaged = 0;
    read_metrics(folder.put("metrics.jsonl", bad + "\n"), &damaged);
    EXPECT_EQ(damaged, 1) << bad;
  }
  const testing::TemporaryFolder empty;
  EXPECT_THROW(read_chain(empty / "run"), Error);
}

}  // namespace
}  // namespace binade::train
