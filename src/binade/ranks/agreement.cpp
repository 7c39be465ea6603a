#include "binade/ranks/agreement.h"

#include <sstream>

#include "binade/base/error.h"

namespace binade::ranks {
namespace {

// The first lines that differ; the texts themselves if they have one line.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a), lines_b(b);
  std::string line_a, line_b;
  for (;;) {
    const bool more_a = static_cast<bool>(std::getline(lines_a, line_a));
    const bool more_b = static_cast<bool>(std::getline(lines_b, line_b));
    if (!more_a || !more_b || line_a != line_b)
      return {more_a ? line_a : "its end", more_b ? line_b : "its end"};
  }
}

[[noreturn]] void fail_together(const Communicator& ranks, Facts facts) {
  if (ranks.rank() == 0) fail("ranks", std::move(facts));
  throw FailedElsewhere();
}

}  // namespace

void together(Communicator& ranks, FunctionRef<void()> work) {
  // With a byte in front, so that an empty message is a failure too.
  std::string outcome;
  std::exception_ptr own;
  try {
    work();
  } catch (const std::exception& error) {
    outcome = "!" + std::string(error.what());
    own = std::current_exception();
  }
  const std::vector<std::string> all = ranks.all_gather_text("outcome", outcome);
  std::string first, where;
  size_t failed = 0;
  bool same = true;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    if (failed++ == 0) {
      first = all[rank].substr(1);
      where = "rank " + std::to_string(rank);
    } else {
      same &= all[rank].substr(1) == first;
    }
  }
  if (failed == 0) return;
  if (ranks.rank() != 0) throw FailedElsewhere();
  // The same failure on all ranks is not about one of them.
  if (failed == all.size() && same && own) std::rethrow_exception(own);
  fail(where, {.argument = first});
}

void agree(Communicator& ranks, FunctionRef<AgreedFacts()> facts) {
  if (ranks.size() == 1) return;
  for (const auto& [name, value] : facts()) {
    const std::vector<std::string> all = ranks.all_gather_text(name, value);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      const auto [expected, found] = first_difference(all[0], all[rank]);
      fail_together(ranks, {.argument = name + " of rank " + std::to_string(rank),
                            .expected = "that of rank 0, " + expected,
                            .found = found});
    }
  }
}

}  // namespace binade::ranks
