#include "rank_program/exchange_audit.h"

#include <cstdio>
#include <vector>

#include "binade/backend/audit/auditor.h"
#include "binade/base/random.h"

namespace binade::ranks {
namespace {

constexpr int64_t steps = 60;

struct Counts {
  int64_t flips = 0, found = 0, others = 0;
};

// Parts of other sizes for each pair of ranks: some empty, some of less than a piece.
int64_t size_of_part(int64_t step, int from, int to) {
  if ((step + from + to) % 7 == 0) return 0;
  return random::bits(5, static_cast<uint64_t>(step), static_cast<uint64_t>(from * 64 + to)) %
         100000;
}

std::vector<std::byte> random_bytes(int64_t size, uint64_t stream) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(random::bits(6, stream, i));
  return bytes;
}

void exchange(Communicator& ranks, int64_t step) {
  std::vector<int64_t> to, from, own;
  int64_t sent = 0, received = 0, gathered = 0;
  for (int other = 0; other < ranks.size(); ++other) {
    sent += to.emplace_back(size_of_part(step, ranks.rank(), other));
    received += from.emplace_back(size_of_part(step, other, ranks.rank()));
    gathered += own.emplace_back(size_of_part(step, other, other));
  }
  const auto stream = static_cast<uint64_t>(step * 64 + ranks.rank());
  const std::vector<std::byte> send = random_bytes(sent, stream);
  const std::vector<std::byte> part =
      random_bytes(own[static_cast<size_t>(ranks.rank())], stream + (uint64_t{1} << 32));
  std::vector<std::byte> receive(static_cast<size_t>(received));
  std::vector<std::byte> all(static_cast<size_t>(gathered));
  // Two under way at a time.
  auto first = ranks.all_to_all("parts", send, to, receive, from);
  ranks.all_gather("whole", part, all, own);
  first.wait();
}

}  // namespace

void audit_exchanges(const std::shared_ptr<Communicator>& ranks, double share, bool flips) {
  Counts counts;
  uint64_t drawn = 0;
  int64_t op = -1;  // of the last flips
  const auto flip = [&](const backend::AuditedResult& result) {
    if (!flips) return;
    const auto draw = random::block(9, static_cast<uint64_t>(ranks->rank()), drawn++);
    op = result.op;
    result.view.as<uint8_t>()[draw[0] % result.view.numel()] ^=
        static_cast<uint8_t>(1u << draw[1] % 8);
    ++counts.flips;
  };
  const auto find = [&](const backend::AuditMismatch& one) {
    const bool is_right = one.kernel == "exchange" && one.op == op && one.different == 1;
    ++(is_right ? counts.found : counts.others);
  };
  backend::Auditor auditor(
      Device::cpu(),
      {.share = share, .seed = 3, .rank = ranks->rank(), .on_mismatch = find, .inject = flip});
  for (int64_t step = 1; step <= steps; ++step) {
    auditor.begin_step(step);
    exchange(*ranks, step);
    auditor.end_step();
  }
  std::vector<Counts> all(static_cast<size_t>(ranks->size()));
  ranks->all_gather("counts", std::as_bytes(std::span(&counts, 1)),
                    std::as_writable_bytes(std::span(all)),
                    std::vector<int64_t>(all.size(), sizeof(Counts)));
  Counts total;
  for (const Counts& one : all) {
    total.flips += one.flips;
    total.found += one.found;
    total.others += one.others;
  }
  if (ranks->rank() == 0)
    std::printf("%lld %lld %lld %lld\n", static_cast<long long>(total.flips),
                static_cast<long long>(total.found), static_cast<long long>(total.others),
                static_cast<long long>(auditor.counts().pieces));
}

}  // namespace binade::ranks
