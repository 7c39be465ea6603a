#include "support/rank_variables.h"

#include "binade/ranks/tcp/socket.h"

namespace binade::test {

std::string on_ranks_by_variables(int ranks, const std::string& command) {
  std::string why;
  const int port = ranks::tcp::own_address(ranks::tcp::listen_at("127.0.0.1", 0, why)).port;
  return "{ export WORLD_SIZE=" + std::to_string(ranks) +
         " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port) +
         "; pids=; rank=0; while [ $rank -lt $WORLD_SIZE ]; do RANK=$rank " + command +
         " & pids=\"$pids $!\"; rank=$((rank + 1)); done; status=0; for pid in $pids; do wait $pid "
         "|| { one=$?; [ $status != 0 ] || status=$one; }; done; (exit $status); }";
}

}  // namespace binade::test
