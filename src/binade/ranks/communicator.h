#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/ranks/environment.h"
#include "binade/ranks/group.h"
#include "binade/tensor/device.h"

namespace binade::ranks {

// A collective operation, for messages and for the check that all ranks do the same.
struct Operation {
  int64_t number = 0;  // counted from 1
  std::string name;    // "fold of bucket 3"
  int64_t bytes = 0;   // sent by this rank
  std::string phase;   // "step 12"
};

// Time and traffic of one rank.
struct Traffic {
  int64_t bytes_sent = 0;  // to other ranks
  double waited = 0;       // seconds in wait()
};

// Processes that compute together: each has a rank of 0 to size() - 1. Every member but the
// accessors is collective: all ranks call it, in the same order. Counts are in bytes, one for each
// rank. One thread of a process calls it. Memory is the host's; a communicator of a GPU
// (on_device()) takes that GPU's, and its collectives run in the order of the GPU's work, while the
// host never waits. While a step is audited, random pieces of what all_to_all() and all_gather()
// bring are sent again and compared.
class Communicator {
 public:
  // A collective that runs while the caller computes. wait() must come before the buffers are used
  // or released, and before the Communicator ends. Of a GPU: work submitted after wait() comes
  // after the collective.
  class Pending {
   public:
    Pending() = default;
    explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
    Pending(Pending&&) = default;
    Pending& operator=(Pending&&) = default;
    void wait() {
      if (auto wait = std::exchange(wait_, nullptr)) wait();
    }
    bool defined() const { return wait_ != nullptr; }

   private:
    std::function<void()> wait_;
  };
  using Bytes = std::span<const std::byte>;
  using MutableBytes = std::span<std::byte>;
  using Counts = std::span<const int64_t>;

  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // This rank's place in its group of that kind. Collectives are those of all ranks: of
  // Group::data.
  Place place(Group group) const;
  // Ranks of this machine, and the number of this one among them.
  virtual int local_size() const { return 1; }
  virtual int local_rank() const { return 0; }
  // "MPI, Open MPI v4.1.4"; "one process".
  virtual std::string describe() const = 0;

  // The parts of `send`, one after the other, go to ranks 0, 1, ...; their parts arrive in
  // `receive` in the same order.
  Pending all_to_all(const std::string& name, Bytes send, Counts send_counts, MutableBytes receive,
                     Counts receive_counts);
  // f32: the sums of all ranks' `send`, added in an order that the library chooses; rank r gets
  // part r of them.
  Pending reduce_scatter(const std::string& name, Bytes send, MutableBytes receive, Counts counts);
  // Every rank's `send` arrives in `receive` of every rank, in the order of ranks.
  void all_gather(const std::string& name, Bytes send, MutableBytes receive, Counts counts);
  // all_gather() while the caller computes.
  Pending all_gather_async(const std::string& name, Bytes send, MutableBytes receive,
                           Counts counts);
  // all_gather() to rank 0 alone; `receive` is unused on the others.
  void gather(const std::string& name, Bytes send, MutableBytes receive, Counts counts);
  // Rank 0's bytes arrive on all.
  void broadcast(const std::string& name, MutableBytes bytes);
  // Texts of any length: every rank's, in the order of ranks; rank 0's.
  std::vector<std::string> all_gather_text(const std::string& name, const std::string& text);
  std::string broadcast_text(const std::string& name, const std::string& text);

  // For messages: what the collectives from here on belong to.
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  const std::string& phase() const { return phase_; }
  // Seconds until a wait ends the program; a message comes after the smaller of 30 and half of
  // them.
  void set_timeout(double seconds) { timeout_ = seconds; }
  double timeout() const { return timeout_; }
  const Operation& last() const { return last_; }
  // A number that depends on the names and the order of all collectives so far.
  uint64_t history() const { return history_; }
  const Traffic& traffic() const { return traffic_; }

  // Of a GPU: from here on, a watchdog follows all work that the GPU has so far. For a replay of
  // captured collectives, which it does not see.
  virtual void watch_replay() {}
  // Of a GPU: ends all ranks if a collective has failed, of which the host learns in no other way.
  virtual void check_alive() {}

  // Prints "binade: rank 2: message" and ends all ranks with exit code `status`.
  [[noreturn]] virtual void abort(const std::string& message, int status) = 0;
  // Ends all ranks with a message about an operation that did not end in time: the ranks that no
  // longer answer, or the operations they stand at.
  [[noreturn]] virtual void abort_stuck(const Operation& stuck, double seconds);
  // Gives another rank, which reports a failure, so many seconds to end this one.
  virtual void await_end(double seconds);
  // Ends the message layer after a success on all ranks.
  virtual void finalize() = 0;

 protected:
  virtual Pending start_all_to_all(Bytes send, Counts send_counts, MutableBytes receive,
                                   Counts receive_counts) = 0;
  virtual Pending start_reduce_scatter(Bytes send, MutableBytes receive, Counts counts) = 0;
  virtual Pending start_all_gather(Bytes send, MutableBytes receive, Counts counts) = 0;
  virtual Pending start_gather(Bytes send, MutableBytes receive, Counts counts) = 0;
  virtual Pending start_broadcast(MutableBytes bytes) = 0;
  void add_waited(double seconds) { traffic_.waited += seconds; }
  // Another communicator of the same ranks names the phase and counts this one's bytes.
  void count_on(Communicator& other) { counter_ = &other; }
  // Ends all ranks if a collective between their GPUs has failed: ranks that it has let go would
  // otherwise wait for each other once more.
  void check_device() {
    if (device_ranks_ != nullptr) device_ranks_->check_alive();
  }
  // Before finalize() ends what it needs.
  void release_device() { device_ranks_ = nullptr; }

 private:
  friend std::shared_ptr<Communicator> on_device(const std::shared_ptr<Communicator>& ranks,
                                                 Device device);

  void note(const std::string& name, int64_t bytes, int64_t sent);
  // Whether pieces of an exchange that begins now are sent again (backend/audit/exchange.h).
  bool is_audited() const;
  Pending audited(const std::string& name, Pending first, const std::vector<Bytes>& to,
                  const std::vector<MutableBytes>& from);

  int rank_, size_;
  Communicator* counter_ = this;
  std::shared_ptr<Communicator> device_ranks_;  // see on_device()
  std::string phase_ = "start";
  double timeout_ = 600;
  Operation last_;
  uint64_t history_ = 0;
  Traffic traffic_;
};

// A process alone.
std::shared_ptr<Communicator> single();

// One of `size` ranks without the others, for forecasts on the meta device: collectives count their
// bytes. What a rank sends comes from all.
std::shared_ptr<Communicator> simulated(int rank, int size);

// Joins the processes that a launcher started with this one (environment.h): by MPI if it is a
// launcher of MPI programs, otherwise by TCP; alone: single(). Fails if the launcher's number of
// processes is not the one found, or if this build has no MPI. Call it once.
std::shared_ptr<Communicator> init();

// These ranks for the memory of a device: NCCL's for a GPU, which each rank must have one of,
// made once and then returned again; `ranks` themselves for others. A process alone needs no NCCL;
// for more, it fails if this build has none. Collective.
std::shared_ptr<Communicator> on_device(const std::shared_ptr<Communicator>& ranks, Device device);

// The GPU of a rank among those of its machine: cuda:(local rank modulo GPUs). Other devices as
// given.
Device device_of_rank(const Communicator& ranks, Device device);

// Whether this build has MPI, and its version: "Open MPI v4.1.4". Empty: no. The same of NCCL:
// "NCCL 2.28.9".
std::string mpi_version();
std::string nccl_version();

}  // namespace binade::ranks
