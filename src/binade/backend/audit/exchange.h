#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Exchanges between ranks, audited: random pieces of what arrives are sent again and compared.
namespace binade::backend {

// The audit of one exchange. Both ends of it choose the same pieces without asking each other: by
// seed, step, the number of the exchange and the two ranks.
class ExchangeAudit {
 public:
  static constexpr int64_t piece_bytes = 8192;

  // Whether an exchange that begins now is audited: within a step, on its thread.
  static bool is_on();

  // `number` is the exchange's, `ranks` how many take part.
  ExchangeAudit(int64_t number, int ranks);

  // A part of what one rank sends to another.
  struct Piece {
    size_t begin, size;
  };
  std::vector<Piece> chosen(int from, int to, int64_t bytes) const;
  // Counts what arrives from another rank as work.
  void expect(int64_t bytes, size_t chosen) const;
  // Lets tests change what has arrived.
  void arrived(std::span<std::byte> bytes) const;
  // Reports bytes that differ. `what` names them: "fold of bucket 3 from rank 1"; `begin` is their
  // place in it.
  void compare(const std::string& what, size_t begin, std::span<const std::byte> found,
               std::span<const std::byte> again) const;

 private:
  int64_t number_, op_;
  int ranks_;
};

}  // namespace binade::backend
