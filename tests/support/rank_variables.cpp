#include "support/rank_variables.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace binade::test {
namespace {

// One that is free now. By the system's own calls: tests of the program do not link the library.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound =
      ::bind(socket, generic, size) == 0 && ::getsockname(socket, generic, &size) == 0;
  ::close(socket);
  return is_bound ? ntohs(address.sin_port) : 0;
}

}  // namespace

std::string on_ranks_by_variables(int ranks, const std::string& command) {
  return "{ export WORLD_SIZE=" + std::to_string(ranks) +
         " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) +
         "; pids=; rank=0; while [ $rank -lt $WORLD_SIZE ]; do RANK=$rank " + command +
         " & pids=\"$pids $!\"; rank=$((rank + 1)); done; status=0; for pid in $pids; do wait $pid "
         "|| { one=$?; [ $status != 0 ] || status=$one; }; done; (exit $status); }";
}

}  // namespace binade::test
