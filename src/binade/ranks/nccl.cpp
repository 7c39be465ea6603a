#include "binade/ranks/nccl.h"

#include "binade/base/error.h"

#if !BINADE_NCCL

namespace binade::ranks {

std::string nccl_version() { return {}; }

std::shared_ptr<Communicator> make_nccl(Communicator& host, Device device) {
  fail("ranks",
       {.argument = "device",
        .expected = "cpu for " + std::to_string(host.size()) + " ranks, or a build with NCCL",
        .found = to_string(device) + " and a build without",
        .hint = "install NCCL and build again, or add --device cpu"});
}

}  // namespace binade::ranks

#else

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>

#include "binade/backend/backend.h"
#include "binade/backend/gpu.h"
#include "binade/backend/side_stream.h"
#include "binade/base/execution.h"
#include "binade/ranks/watchdog.h"

namespace binade::ranks {
namespace {

// How often the watchdog looks at the operations under way.
constexpr auto look_interval = std::chrono::milliseconds(100);
// After an abort, the thread that waited for the GPU takes a roll call, which ends the process; if
// it does not come to that in these seconds, the watchdog does.
constexpr double grace = 8;

std::string version_text() {
  int code = 0;
  ncclGetVersion(&code);
  return "NCCL " + std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

// Follows the collectives that a GPU runs, in a thread of its own, since the host does not wait for
// them: one that does not end in time, or an error of NCCL, aborts them all.
class NcclWatchdog {
 public:
  NcclWatchdog(int rank, double timeout) : rank_(rank), timeout_(timeout) {
    thread_ = execution::Thread([this] { run(); });
  }
  ~NcclWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  void watch(ncclComm_t communicator) {
    const std::lock_guard lock(mutex_);
    communicator_ = communicator;
  }
  // An operation of the host itself (no event), or of the GPU.
  void add(const Operation& operation, std::optional<backend::SideStream::Event> end) {
    const std::lock_guard lock(mutex_);
    if (running_.empty()) front_since_ = WatchClock::now();
    running_.push_back({operation, std::move(end)});
  }
  void remove_first() {
    const std::lock_guard lock(mutex_);
    if (!running_.empty()) running_.pop_front();
  }

  struct Failure {
    Operation operation;
    double seconds = 0;
    std::string error;  // NCCL's; empty: the time is up
  };
  std::optional<Failure> failure() {
    if (!failed_) return {};
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  struct Running {
    Operation operation;
    std::optional<backend::SideStream::Event> end;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!stops_ && !look()) changed_.wait_for(lock, look_interval);
    if (stops_) return;
    if (communicator_ != nullptr) ncclCommAbort(communicator_);
    failed_ = true;
    changed_.wait_for(lock, std::chrono::duration<double>(grace), [this] { return stops_; });
    if (stops_) return;
    std::fprintf(stderr, "binade: rank %d: waiting in %s, %s for %.0f s%s\n", rank_,
                 failure_->operation.phase.c_str(), failure_->operation.name.c_str(),
                 failure_->seconds + grace,
                 failure_->error.empty() ? "" : (": " + failure_->error).c_str());
    std::fflush(stderr);
    std::_Exit(2);
  }

  // Whether something has failed.
  bool look() {
    while (!running_.empty() && running_.front().end && running_.front().end->reached()) {
      running_.pop_front();
      front_since_ = WatchClock::now();
    }
    const double seconds = running_.empty() ? 0 : elapsed(front_since_);
    std::string error;
    ncclResult_t result = ncclSuccess;
    if (communicator_ != nullptr && ncclCommGetAsyncError(communicator_, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress)
      error = ncclGetErrorString(result);
    if (error.empty() && seconds < timeout_) return false;
    failure_ = Failure{running_.empty() ? Operation{} : running_.front().operation, seconds, error};
    return true;
  }

  int rank_;
  double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Running> running_;
  WatchClock::time_point front_since_;
  ncclComm_t communicator_ = nullptr;
  std::optional<Failure> failure_;
  std::atomic<bool> failed_ = false;
  bool stops_ = false;
  execution::Thread thread_;
};

void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail("ranks",
       {.argument = call,
        .expected = "success",
        .found = std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr),
        .hint = "NCCL_DEBUG=WARN says more"});
}

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  fail("ranks", {.argument = call, .expected = "success", .found = cudaGetErrorString(status)});
}

// A communicator of NCCL with its collectives on a stream. Counts and memory as in Communicator,
// memory of the GPU.
class NcclCollectives {
 public:
  NcclCollectives(int rank, int size, cudaStream_t stream)
      : rank_(rank), size_(size), stream_(stream) {}

  void start(const ncclUniqueId& id) {
    check_nccl(ncclCommInitRank(&communicator_, size_, id, rank_), "ncclCommInitRank");
  }
  ncclComm_t get() const { return communicator_; }

  void all_to_all(Communicator::Bytes send, Communicator::Counts send_counts,
                  Communicator::MutableBytes receive, Communicator::Counts receive_counts) const {
    size_t from = 0, to = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const auto out = static_cast<size_t>(send_counts[static_cast<size_t>(peer)]);
      const auto in = static_cast<size_t>(receive_counts[static_cast<size_t>(peer)]);
      exchange(peer, send.subspan(from, out), receive.subspan(to, in));
      from += out;
      to += in;
    }
  }

  void reduce_scatter(Communicator::Bytes send, Communicator::MutableBytes receive,
                      Communicator::Counts counts) const {
    if (are_equal(counts)) {
      check_nccl(ncclReduceScatter(send.data(), receive.data(), receive.size() / sizeof(float),
                                   ncclFloat32, ncclSum, communicator_, stream_),
                 "ncclReduceScatter");
      return;
    }
    size_t at = 0;
    for (int root = 0; root < size_; ++root) {
      const auto count = static_cast<size_t>(counts[static_cast<size_t>(root)]);
      if (count > 0)
        check_nccl(ncclReduce(send.data() + at, receive.data(), count / sizeof(float), ncclFloat32,
                              ncclSum, root, communicator_, stream_),
                   "ncclReduce");
      at += count;
    }
  }

  void all_gather(Communicator::Bytes send, Communicator::MutableBytes receive,
                  Communicator::Counts counts) const {
    if (are_equal(counts)) {
      check_nccl(ncclAllGather(send.data(), receive.data(), send.size(), ncclUint8, communicator_,
                               stream_),
                 "ncclAllGather");
      return;
    }
    size_t at = 0;
    for (int root = 0; root < size_; ++root) {
      const auto count = static_cast<size_t>(counts[static_cast<size_t>(root)]);
      if (count > 0)
        check_nccl(ncclBroadcast(send.data(), receive.data() + at, count, ncclUint8, root,
                                 communicator_, stream_),
                   "ncclBroadcast");
      at += count;
    }
  }

  void gather(Communicator::Bytes send, Communicator::MutableBytes receive,
              Communicator::Counts counts) const {
    if (rank_ != 0) return exchange(0, send, {});
    size_t at = 0;
    for (int peer = 0; peer < size_; ++peer) {
      const auto count = static_cast<size_t>(counts[static_cast<size_t>(peer)]);
      exchange(peer, peer == 0 ? send : Communicator::Bytes(), receive.subspan(at, count));
      at += count;
    }
  }

  void broadcast(Communicator::MutableBytes bytes) const {
    check_nccl(ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), ncclUint8, 0, communicator_,
                             stream_),
               "ncclBroadcast");
  }

 private:
  static bool are_equal(Communicator::Counts counts) {
    return std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == counts[0]; });
  }

  // Sends to a rank and receives from it.
  void exchange(int peer, Communicator::Bytes send, Communicator::MutableBytes receive) const {
    if (peer == rank_) {
      if (!send.empty())
        check_cuda(cudaMemcpyAsync(receive.data(), send.data(), send.size(),
                                   cudaMemcpyDeviceToDevice, stream_),
                   "copy on the GPU");
      return;
    }
    if (!send.empty())
      check_nccl(ncclSend(send.data(), send.size(), ncclUint8, peer, communicator_, stream_),
                 "ncclSend");
    if (!receive.empty())
      check_nccl(ncclRecv(receive.data(), receive.size(), ncclUint8, peer, communicator_, stream_),
                 "ncclRecv");
  }

  int rank_, size_;
  cudaStream_t stream_;
  ncclComm_t communicator_ = nullptr;
};

// The ranks of a host for the memory of its GPU.
class Nccl final : public Communicator {
 public:
  Nccl(Communicator& host, Device device)
      : Communicator(host.rank(), host.size()),
        host_(host),
        stream_(device),
        collectives_(rank(), size(), static_cast<cudaStream_t>(stream_.native())),
        watchdog_(host.rank(), host.timeout()) {
    count_on(host);
    ncclUniqueId id{};
    if (rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    host.broadcast("NCCL's id", std::as_writable_bytes(std::span(&id, 1)));
    backend::of(device);  // activates it
    watchdog_.add({0, "start of NCCL", 0, host.phase()}, {});
    collectives_.start(id);
    watchdog_.remove_first();
    watchdog_.watch(collectives_.get());
  }

  ~Nccl() override {
    if (watchdog_.failure()) return;
    watchdog_.watch(nullptr);
    ncclCommDestroy(collectives_.get());
  }

  int local_size() const override { return host_.local_size(); }
  int local_rank() const override { return host_.local_rank(); }
  std::string describe() const override { return version_text(); }
  [[noreturn]] void abort(const std::string& message, int status) override {
    host_.abort(message, status);
    std::abort();  // GCC does not see that the call above never returns
  }
  void finalize() override {}

  // The host learns of a failure with its next operation.
  void check_alive() override {
    const auto failure = watchdog_.failure();
    if (!failure) return;
    if (failure->error.empty()) host_.abort_stuck(failure->operation, failure->seconds);
    fail("ranks", {.argument = failure->operation.phase + ", " + failure->operation.name,
                   .expected = "success",
                   .found = failure->error});
  }

  void watch_replay() override {
    check_alive();
    stream_.follow_device();
    watchdog_.add({last().number, "collectives of a replayed graph", 0, host_.phase()},
                  stream_.record());
  }

 protected:
  Pending start_all_to_all(Bytes send, Counts send_counts, MutableBytes receive,
                           Counts receive_counts) override {
    return run([&] { collectives_.all_to_all(send, send_counts, receive, receive_counts); });
  }
  Pending start_reduce_scatter(Bytes send, MutableBytes receive, Counts counts) override {
    return run([&] { collectives_.reduce_scatter(send, receive, counts); });
  }
  Pending start_all_gather(Bytes send, MutableBytes receive, Counts counts) override {
    return run([&] { collectives_.all_gather(send, receive, counts); });
  }
  Pending start_gather(Bytes send, MutableBytes receive, Counts counts) override {
    return run([&] { collectives_.gather(send, receive, counts); });
  }
  Pending start_broadcast(MutableBytes bytes) override {
    return run([&] { collectives_.broadcast(bytes); });
  }

 private:
  template <class F>
  Pending run(F work) {
    check_alive();
    stream_.follow_device();
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    work();
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
    const backend::SideStream::Event end = stream_.record();
    if (!stream_.is_capturing()) watchdog_.add(last(), end);
    return Pending([this, end] { stream_.make_device_wait(end); });
  }

  Communicator& host_;
  backend::SideStream stream_;
  NcclCollectives collectives_;
  NcclWatchdog watchdog_;
};

}  // namespace

std::string nccl_version() { return version_text(); }

std::shared_ptr<Communicator> make_nccl(Communicator& host, Device device) {
  return std::make_shared<Nccl>(host, device);
}

}  // namespace binade::ranks

#endif
