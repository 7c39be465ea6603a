#pragma once

#include <string>
#include <vector>

#include "binade/ranks/tcp/socket.h"

namespace binade::ranks::tcp {

// Who meets where.
struct Meeting {
  Address place;  // rank 0 listens there, the others look for it there
  int rank = 0, size = 1;
  std::string machine;       // the same text for ranks of one machine
  double warning_time = 30;  // seconds until a message says who is missing
  double patience = 600;     // seconds until the meeting fails
};

// Every rank connected with every other.
struct Mesh {
  std::vector<Socket> peers;          // by rank; none for this one
  std::vector<std::string> machines;  // by rank
};

// Meets the other ranks: all call it, at about the same time. Fails with the rank, the address or
// the variable at fault: a rank is missing when patience ends, there are two of one rank, another
// WORLD_SIZE, a port in use, an address that cannot be reached. What rank 0 finds fails on all
// ranks that have come.
Mesh meet(const Meeting& meeting);

}  // namespace binade::ranks::tcp
