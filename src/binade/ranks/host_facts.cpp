#include "binade/ranks/host_facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "binade/base/error.h"

namespace binade::ranks {

HostFacts exchange(Communicator& ranks, const HostFacts& own) {
  if (ranks.size() == 1) return own;
  struct Message {
    uint64_t history;
    int64_t number;
    HostFacts facts;
  };
  const Message mine{ranks.history(), ranks.last().number, own};
  std::vector<Message> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather("facts", std::as_bytes(std::span(&mine, 1)),
                   std::as_writable_bytes(std::span(all)),
                   std::vector<int64_t>(all.size(), sizeof(Message)));
  HostFacts whole;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Message& one = all[rank];
    if (one.history != mine.history || one.number != mine.number) {
      fail("ranks", {.argument = "rank " + std::to_string(rank),
                     .expected = "the collectives of rank " + std::to_string(ranks.rank()) + ", " +
                                 std::to_string(mine.number) + " so far",
                     .found = std::to_string(one.number) + ", or others"});
    }
    whole.stop = std::max(whole.stop, one.facts.stop);
    whole.seconds += one.facts.seconds;
    whole.waited += one.facts.waited;
  }
  return whole;
}

}  // namespace binade::ranks
