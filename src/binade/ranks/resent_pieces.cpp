#include "binade/ranks/resent_pieces.h"

#include <utility>

namespace binade::ranks {

ResentPieces::ResentPieces(int64_t number, std::string name, int rank,
                           const std::vector<std::span<const std::byte>>& to,
                           const std::vector<std::span<std::byte>>& from)
    : audit_(number, static_cast<int>(to.size())),
      name_(std::move(name)),
      send_counts_(to.size()),
      receive_counts_(to.size()) {
  for (int other = 0; other < static_cast<int>(to.size()); ++other) {
    if (other == rank) continue;
    const auto at = static_cast<size_t>(other);
    for (const auto& [begin, size] : audit_.chosen(rank, other, std::ssize(to[at]))) {
      const auto piece = to[at].subspan(begin, size);
      outgoing_.insert(outgoing_.end(), piece.begin(), piece.end());
      send_counts_[at] += std::ssize(piece);
    }
    const auto pieces = audit_.chosen(other, rank, std::ssize(from[at]));
    audit_.expect(std::ssize(from[at]), pieces.size());
    for (const auto& [begin, size] : pieces) {
      expected_.push_back({other, begin, from[at].subspan(begin, size)});
      receive_counts_[at] += static_cast<int64_t>(size);
    }
    arrived_.push_back(from[at]);
  }
  size_t bytes = 0;
  for (const Expected& one : expected_) bytes += one.found.size();
  incoming_.resize(bytes);
}

void ResentPieces::compare() const {
  for (const auto& bytes : arrived_) audit_.arrived(bytes);
  size_t at = 0;
  for (const Expected& one : expected_) {
    audit_.compare(name_ + " from rank " + std::to_string(one.from), one.begin, one.found,
                   std::span(incoming_).subspan(at, one.found.size()));
    at += one.found.size();
  }
}

}  // namespace binade::ranks
