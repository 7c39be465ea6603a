#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "binade/backend/audit/exchange.h"

namespace binade::ranks {

// The pieces of one exchange that an audit has sent again: what to send, and what to expect.
class ResentPieces {
 public:
  // Of the exchange `name` of this number, in which this rank sends to[r] to rank r and receives
  // from[r].
  ResentPieces(int64_t number, std::string name, int rank,
               const std::vector<std::span<const std::byte>>& to,
               const std::vector<std::span<std::byte>>& from);

  // For a second exchange, of these alone.
  std::span<const std::byte> outgoing() const { return outgoing_; }
  std::span<std::byte> incoming() { return incoming_; }
  const std::vector<int64_t>& send_counts() const { return send_counts_; }
  const std::vector<int64_t>& receive_counts() const { return receive_counts_; }

  // After both: reports what arrived in another way.
  void compare() const;

 private:
  struct Expected {
    int from;
    size_t begin;
    std::span<std::byte> found;
  };

  backend::ExchangeAudit audit_;
  std::string name_;
  std::vector<std::byte> outgoing_, incoming_;
  std::vector<int64_t> send_counts_, receive_counts_;
  std::vector<std::span<std::byte>> arrived_;  // by rank; none of this one
  std::vector<Expected> expected_;
};

}  // namespace binade::ranks
