#include "binade/ranks/communicator.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "binade/backend/capabilities.h"
#include "binade/backend/exchange.h"
#include "binade/backend/gpu.h"
#include "binade/base/error.h"
#include "binade/ranks/mpi.h"
#include "binade/ranks/nccl.h"
#include "binade/ranks/resent_pieces.h"
#include "binade/ranks/tcp/tcp.h"

namespace binade::ranks {
namespace {

int64_t total(Communicator::Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void check_size(const std::string& name, int64_t found, int64_t expected) {
  if (found == expected) return;
  fail("ranks", {.argument = "bytes of " + name,
                 .expected = std::to_string(expected),
                 .found = std::to_string(found)});
}

// A process alone, or one of several without the others.
class Alone final : public Communicator {
 public:
  Alone(int rank, int size, Device device) : Communicator(rank, size), device_(device) {}

  std::string describe() const override {
    return size() == 1 ? "one process" : "one process of " + std::to_string(size());
  }
  [[noreturn]] void abort(const std::string& message, int status) override {
    std::fprintf(stderr, "binade: %s\n", message.c_str());
    std::exit(status);
  }
  void finalize() override {}

 protected:
  Pending start_all_to_all(Bytes send, Counts, MutableBytes receive, Counts) override {
    return copy(send, receive);
  }
  Pending start_reduce_scatter(Bytes send, MutableBytes receive, Counts counts) override {
    const auto before = static_cast<size_t>(total(counts.first(static_cast<size_t>(rank()))));
    return copy(send.subspan(before, receive.size()), receive);
  }
  Pending start_all_gather(Bytes send, MutableBytes receive, Counts) override {
    return copy(send, receive);
  }
  Pending start_gather(Bytes send, MutableBytes receive, Counts) override {
    return copy(send, receive);
  }
  Pending start_broadcast(MutableBytes) override { return {}; }

 private:
  // As often as it fits. Tensors of the meta device have no data.
  Pending copy(Bytes send, MutableBytes receive) const {
    if (send.empty()) return {};
    for (size_t at = 0; at + send.size() <= receive.size(); at += send.size())
      backend::copy_bytes(device_, receive.data() + at, send.data(), std::ssize(send));
    return {};
  }

  Device device_;
};

}  // namespace

Place Communicator::place(Group group) const {
  switch (group) {
    case Group::data:
      break;
  }
  return {rank_, size_};
}

void Communicator::note(const std::string& name, int64_t bytes, int64_t sent) {
  check_device();
  last_ = {last_.number + 1, name, bytes, counter_->phase_};
  history_ = XXH3_64bits_withSeed(name.data(), name.size(), history_);
  counter_->traffic_.bytes_sent += sent;
}

void Communicator::abort_stuck(const Operation& stuck, double seconds) {
  abort("waiting in " + stuck.phase + ", " + stuck.name + " for " +
            std::to_string(static_cast<int64_t>(seconds)) + " s",
        2);
  std::abort();  // GCC does not see that the call above never returns
}

void Communicator::await_end(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

Communicator::Pending Communicator::all_to_all(const std::string& name, Bytes send,
                                               Counts send_counts, MutableBytes receive,
                                               Counts receive_counts) {
  check_size(name, std::ssize(send_counts), size_);
  check_size(name, std::ssize(receive_counts), size_);
  check_size(name, std::ssize(send), total(send_counts));
  check_size(name, std::ssize(receive), total(receive_counts));
  note(name, std::ssize(send), std::ssize(send) - send_counts[static_cast<size_t>(rank_)]);
  Pending first = start_all_to_all(send, send_counts, receive, receive_counts);
  if (!is_audited()) return first;
  std::vector<Bytes> to;
  std::vector<MutableBytes> from;
  for (size_t rank = 0; rank < send_counts.size(); ++rank) {
    to.push_back(send.first(static_cast<size_t>(send_counts[rank])));
    from.push_back(receive.first(static_cast<size_t>(receive_counts[rank])));
    send = send.subspan(to.back().size());
    receive = receive.subspan(from.back().size());
  }
  return audited(name, std::move(first), to, from);
}

bool Communicator::is_audited() const { return size_ > 1 && backend::ExchangeAudit::is_on(); }

// The pieces travel beside the exchange itself.
Communicator::Pending Communicator::audited(const std::string& name, Pending first,
                                            const std::vector<Bytes>& to,
                                            const std::vector<MutableBytes>& from) {
  const auto again = std::make_shared<ResentPieces>(last_.number, name, rank_, to, from);
  note("audit of " + name, std::ssize(again->outgoing()), std::ssize(again->outgoing()));
  auto both = std::make_shared<std::pair<Pending, Pending>>(
      std::move(first), start_all_to_all(again->outgoing(), again->send_counts(), again->incoming(),
                                         again->receive_counts()));
  return Pending([again, both] {
    both->first.wait();
    both->second.wait();
    again->compare();
  });
}

Communicator::Pending Communicator::reduce_scatter(const std::string& name, Bytes send,
                                                   MutableBytes receive, Counts counts) {
  const int64_t own = counts[static_cast<size_t>(rank_)];
  check_size(name, std::ssize(counts), size_);
  check_size(name, std::ssize(send), total(counts));
  check_size(name, std::ssize(receive), own);
  note(name, std::ssize(send), std::ssize(send) - own);
  return start_reduce_scatter(send, receive, counts);
}

void Communicator::all_gather(const std::string& name, Bytes send, MutableBytes receive,
                              Counts counts) {
  all_gather_async(name, send, receive, counts).wait();
}

Communicator::Pending Communicator::all_gather_async(const std::string& name, Bytes send,
                                                     MutableBytes receive, Counts counts) {
  check_size(name, std::ssize(counts), size_);
  check_size(name, std::ssize(send), counts[static_cast<size_t>(rank_)]);
  check_size(name, std::ssize(receive), total(counts));
  note(name, std::ssize(send), std::ssize(send) * (size_ - 1));
  Pending first = start_all_gather(send, receive, counts);
  if (!is_audited()) return first;
  std::vector<MutableBytes> from;
  for (const int64_t count : counts) {
    from.push_back(receive.first(static_cast<size_t>(count)));
    receive = receive.subspan(from.back().size());
  }
  return audited(name, std::move(first), std::vector<Bytes>(from.size(), send), from);
}

void Communicator::gather(const std::string& name, Bytes send, MutableBytes receive,
                          Counts counts) {
  check_size(name, std::ssize(counts), size_);
  check_size(name, std::ssize(send), counts[static_cast<size_t>(rank_)]);
  if (rank_ == 0) check_size(name, std::ssize(receive), total(counts));
  note(name, std::ssize(send), rank_ == 0 ? 0 : std::ssize(send));
  start_gather(send, receive, counts).wait();
}

void Communicator::broadcast(const std::string& name, MutableBytes bytes) {
  note(name, std::ssize(bytes), rank_ == 0 ? std::ssize(bytes) * (size_ - 1) : 0);
  start_broadcast(bytes).wait();
}

std::vector<std::string> Communicator::all_gather_text(const std::string& name,
                                                       const std::string& text) {
  const auto ranks = static_cast<size_t>(size_);
  const int64_t length = std::ssize(text);
  std::vector<int64_t> lengths(ranks);
  all_gather("length of " + name, std::as_bytes(std::span(&length, 1)),
             std::as_writable_bytes(std::span(lengths)),
             std::vector<int64_t>(ranks, sizeof(int64_t)));
  std::string all(static_cast<size_t>(total(lengths)), '\0');
  all_gather(name, std::as_bytes(std::span(text)), std::as_writable_bytes(std::span(all)), lengths);
  std::vector<std::string> result;
  size_t at = 0;
  for (const int64_t one : lengths) {
    result.push_back(all.substr(at, static_cast<size_t>(one)));
    at += static_cast<size_t>(one);
  }
  return result;
}

std::string Communicator::broadcast_text(const std::string& name, const std::string& text) {
  int64_t length = std::ssize(text);
  broadcast("length of " + name, std::as_writable_bytes(std::span(&length, 1)));
  std::string result = rank_ == 0 ? text : std::string(static_cast<size_t>(length), '\0');
  broadcast(name, std::as_writable_bytes(std::span(result)));
  return result;
}

std::shared_ptr<Communicator> single() { return simulated(0, 1); }

std::shared_ptr<Communicator> simulated(int rank, int size) {
  return std::make_shared<Alone>(rank, size, Device::cpu());
}

std::shared_ptr<Communicator> on_device(const std::shared_ptr<Communicator>& ranks, Device device) {
  if (!backend::capabilities(device).has_collectives) return ranks;
  if (ranks->size() == 1) return std::make_shared<Alone>(0, 1, device);
  if (ranks->device_ranks_ == nullptr) ranks->device_ranks_ = make_nccl(*ranks, device);
  return ranks->device_ranks_;
}

Device device_of_rank(const Communicator& ranks, Device device) {
  const auto gpus = static_cast<int>(backend::gpus().size());
  if (!backend::capabilities(device).has_collectives || ranks.size() == 1 || gpus == 0)
    return device;
  return Device::cuda(ranks.local_rank() % gpus);
}

std::shared_ptr<Communicator> init() {
  Environment here = environment();
  if (here.size == 1) return single();
  // srun offers PMIx to programs that do not need it, too.
  if (here.launcher == "PMIx" && mpi_version().empty()) here.launcher = "srun";
  const bool is_without_mpi = here.launcher == "torchrun" || here.launcher == "srun";
  return is_without_mpi ? init_tcp(here) : init_mpi(here);
}

}  // namespace binade::ranks
