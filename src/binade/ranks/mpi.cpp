#include "binade/ranks/mpi.h"

#include "binade/base/error.h"

#if !BINADE_MPI

namespace binade::ranks {

std::string mpi_version() { return {}; }

std::shared_ptr<Communicator> init_mpi(const Environment& here) {
  fail("ranks", {.argument = here.launcher,
                 .expected = "a build with MPI",
                 .found = std::to_string(here.size) + " processes and a build without",
                 .hint = "install libopenmpi-dev and build again"});
}

}  // namespace binade::ranks

#else

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <thread>

#include "binade/ranks/watchdog.h"

namespace binade::ranks {
namespace {

constexpr int roll_call_tag = 1;

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data());
  return whole.substr(0, whole.find_first_of(",\n"));
}

class Mpi final : public Communicator {
 public:
  explicit Mpi(int rank, int size) : Communicator(rank, size) {
    MPI_Comm_dup(MPI_COMM_WORLD, &data_);
    MPI_Comm_dup(MPI_COMM_WORLD, &roll_calls_);
    MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN);
    MPI_Comm local = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &local_size_);
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_free(&local);
  }

  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string describe() const override { return "MPI, " + library_version(); }

  [[noreturn]] void abort(const std::string& message, int status) override {
    std::fflush(stdout);
    std::fprintf(stderr, "binade: rank %d: %s\n", rank(), message.c_str());
    std::fflush(stderr);
    end(status);
  }

  [[noreturn]] void abort_stuck(const Operation& stuck, double seconds) override {
    const RollCall answers = roll_call();
    if (speaker(answers) != rank()) wait_for_the_speaker();
    const bool all_answer = std::all_of(answers.begin(), answers.end(),
                                        [](const auto& one) { return one.has_value(); });
    abort(ranks::describe(answers, all_answer ? last() : stuck, seconds), 2);
  }

  void finalize() override {
    release_device();
    MPI_Comm_free(&data_);
    MPI_Comm_free(&roll_calls_);
    MPI_Finalize();
  }

 protected:
  Pending start_all_to_all(Bytes send, Counts send_counts, MutableBytes receive,
                           Counts receive_counts) override {
    const Layout to(send_counts), from(receive_counts);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ialltoallv(send.data(), to.counts(), to.offsets(), MPI_BYTE, receive.data(),
                         from.counts(), from.offsets(), MPI_BYTE, data_, &request));
    // MPI reads counts and offsets until the operation is complete.
    return Pending([this, request, to, from] { wait(request); });
  }

  Pending start_reduce_scatter(Bytes send, MutableBytes receive, Counts counts) override {
    std::vector<int64_t> elements(counts.begin(), counts.end());
    for (int64_t& count : elements) count /= static_cast<int64_t>(sizeof(float));
    const Layout to(elements);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ireduce_scatter(send.data(), receive.data(), to.counts(), MPI_FLOAT, MPI_SUM, data_,
                              &request));
    return Pending([this, request, to] { wait(request); });
  }

  Pending start_all_gather(Bytes send, MutableBytes receive, Counts counts) override {
    const Layout from(counts);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgatherv(send.data(), narrowed(std::ssize(send)), MPI_BYTE, receive.data(),
                          from.counts(), from.offsets(), MPI_BYTE, data_, &request));
    return Pending([this, request, from] { wait(request); });
  }

  Pending start_gather(Bytes send, MutableBytes receive, Counts counts) override {
    const Layout from(counts);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Igatherv(send.data(), narrowed(std::ssize(send)), MPI_BYTE, receive.data(),
                       from.counts(), from.offsets(), MPI_BYTE, 0, data_, &request));
    return Pending([this, request, from] { wait(request); });
  }

  Pending start_broadcast(MutableBytes bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(bytes.data(), narrowed(std::ssize(bytes)), MPI_BYTE, 0, data_, &request));
    return Pending([this, request] { wait(request); });
  }

 private:
  // MPI's counts are ints.
  static int narrowed(int64_t bytes) {
    if (bytes > std::numeric_limits<int>::max())
      fail("ranks", {.argument = "message",
                     .expected = "at most 2 GiB between two ranks",
                     .found = std::to_string(bytes) + " bytes"});
    return static_cast<int>(bytes);
  }

  // Counts and offsets in the form MPI reads them, at an address that stays.
  class Layout {
   public:
    explicit Layout(Counts counts) : numbers_(std::make_shared<std::vector<int>>()) {
      for (const int64_t count : counts) numbers_->push_back(narrowed(count));
      int64_t offset = 0;
      for (const int64_t count : counts) {
        numbers_->push_back(narrowed(offset));
        offset += count;
      }
    }
    const int* counts() const { return numbers_->data(); }
    const int* offsets() const { return numbers_->data() + numbers_->size() / 2; }

   private:
    std::shared_ptr<std::vector<int>> numbers_;
  };

  // Ends all ranks. Open MPI's mpirun does that when one exits with an error. Asked by MPI_Abort,
  // it may wait at its own end forever (Open MPI 4.1 with PMIx 4.2, if ranks outnumber idle cores).
  [[noreturn]] static void end(int status) {
    const bool by_mpirun = std::getenv("OMPI_MCA_orte_launch") != nullptr;
    if (status == 0 || !by_mpirun) MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

  // An error of MPI itself: a collective that another rank did not start alike, or a lost peer.
  void check(int code) {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    const RollCall answers = roll_call();
    if (speaker(answers) != rank()) wait_for_the_speaker();
    abort(std::string(text.data()) + "; " + ranks::describe(answers, last(), 0), 2);
  }

  void wait(MPI_Request request) {
    const auto begin = WatchClock::now();
    bool warned = false;
    for (int64_t turn = 0;; ++turn) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      if (done != 0) break;
      // Messages between ranks of one machine arrive within microseconds. Later the core is better
      // left to the rank that is awaited, which may have no other.
      if (turn < 200) continue;
      if (turn < 2000) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      if (turn % 64 == 0) watch(begin, warned);
    }
    add_waited(elapsed(begin));
  }

  void watch(WatchClock::time_point begin, bool& warned) {
    answer_questions(nullptr);
    check_device();
    const double seconds = elapsed(begin);
    const bool expired = seconds >= timeout();
    if (!expired && (warned || seconds < std::min(warning_time, timeout() / 2))) return;
    const RollCall answers = roll_call();
    const bool speaks = speaker(answers) == rank();
    const std::string text = ranks::describe(answers, last(), seconds);
    if (expired) {
      if (!speaks) wait_for_the_speaker();
      abort(text, 2);
    }
    if (speaks) {
      std::fprintf(stderr, "binade: rank %d: %s\n", rank(), text.c_str());
      std::fflush(stderr);
    }
    warned = true;
  }

  // The speaker ends all ranks.
  static void wait_for_the_speaker() {
    std::this_thread::sleep_for(std::chrono::duration<double>(speaking_time));
  }

  void send(int to, bool is_question) {
    outbox_.push_back(std::make_unique<RollCallMessage>(RollCallMessage::of(last())));
    outbox_.back()->is_question = is_question ? 1 : 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(outbox_.back().get(), sizeof(RollCallMessage), MPI_BYTE, to, roll_call_tag,
              roll_calls_, &request);
    MPI_Request_free(&request);  // a few bytes, kept until the end
  }

  // Answers the questions that have arrived, and notes answers.
  void answer_questions(RollCall* answers) {
    for (;;) {
      int arrived = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, roll_call_tag, roll_calls_, &arrived, &status);
      if (arrived == 0) return;
      RollCallMessage message;
      MPI_Recv(&message, sizeof(message), MPI_BYTE, status.MPI_SOURCE, roll_call_tag, roll_calls_,
               MPI_STATUS_IGNORE);
      if (message.is_question != 0) send(status.MPI_SOURCE, false);
      if (answers != nullptr)
        (*answers)[static_cast<size_t>(status.MPI_SOURCE)] = message.operation();
    }
  }

  RollCall roll_call() {
    RollCall answers(static_cast<size_t>(size()));
    answers[static_cast<size_t>(rank())] = last();
    for (int to = 0; to < size(); ++to) {
      if (to != rank()) send(to, true);
    }
    const auto begin = WatchClock::now();
    const auto answered = [](const auto& one) { return one.has_value(); };
    while (elapsed(begin) < answer_time) {
      answer_questions(&answers);
      if (std::all_of(answers.begin(), answers.end(), answered)) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return answers;
  }

  MPI_Comm data_ = MPI_COMM_NULL;        // collectives
  MPI_Comm roll_calls_ = MPI_COMM_NULL;  // messages while a collective hangs
  int local_size_ = 1, local_rank_ = 0;
  std::vector<std::unique_ptr<RollCallMessage>> outbox_;
};

}  // namespace

std::string mpi_version() { return library_version(); }

std::shared_ptr<Communicator> init_mpi(const Environment& here) {
  int provided = 0, rank = 0, size = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != here.rank || size != here.size) {
    fail("ranks", {.argument = here.launcher,
                   .expected = std::to_string(here.size) + " processes that MPI connects",
                   .found = "rank " + std::to_string(rank) + " of " + std::to_string(size),
                   .hint = "start it with the mpirun of the MPI it was built with, " +
                           library_version() + ", or with srun --mpi=pmix or --mpi=none"});
  }
  return std::make_shared<Mpi>(rank, size);
}

}  // namespace binade::ranks

#endif
