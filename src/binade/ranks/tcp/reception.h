#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/ranks/tcp/socket.h"

namespace binade::ranks::tcp {

// What a rank says of itself when it connects: to rank 0, and then to the ranks below its own. As
// bytes, so that every field is checked by the one who reads it.
struct Introduction {
  std::array<char, 8> magic = {'B', 'I', 'N', 'A', 'D', 'E', '\0', '\1'};
  int32_t byte_order = 0x01020304;
  int32_t rank = 0, size = 1;
  int32_t port = 0;                 // where it listens for the ranks above
  uint64_t run = 0;                 // the number that rank 0 gave these ranks; 0 before that
  std::array<char, 64> host{};      // where it listens; empty: at rank 0's host
  std::array<char, 128> machine{};  // the same for ranks of one machine
};

// The text in a field, whether or not it has an end.
std::string text_in(std::span<const char> field);
void put_text(std::span<char> field, std::string_view text);

struct Guest {
  Socket socket;
  Introduction introduction;
};

// Accepts connections until they have introduced themselves. Those that are of another program, or
// end too early, are dropped.
class Reception {
 public:
  explicit Reception(Socket listener) : listener_(std::move(listener)) {}

  // The next guest, if one comes before the deadline. Returns early, with none, if `watched` ends.
  std::optional<Guest> next(Deadline deadline, const std::vector<const Socket*>& watched);

 private:
  struct Arriving {
    Guest guest;
    size_t received = 0;
  };
  // Whether the connection is still of use.
  static bool read_more(Arriving& arriving);
  std::optional<Guest> take_complete();

  Socket listener_;
  std::vector<Arriving> arriving_;
};

// Whether the other end has closed a connection on which it had nothing to say.
bool has_left(const Socket& socket);

}  // namespace binade::ranks::tcp
