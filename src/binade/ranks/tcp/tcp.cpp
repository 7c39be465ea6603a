#include "binade/ranks/tcp/tcp.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "binade/ranks/tcp/channel.h"
#include "binade/ranks/tcp/meeting_place.h"
#include "binade/ranks/tcp/rendezvous.h"
#include "binade/ranks/watchdog.h"

namespace binade::ranks {
namespace {

using tcp::Channel;
using tcp::Frame;

constexpr int killed_status = 137;  // as a launcher reports the death of a rank

// The parts of some bytes, one after the other.
template <class Span>
std::vector<Span> parts_of(Span whole, Communicator::Counts counts) {
  std::vector<Span> parts;
  size_t at = 0;
  for (const int64_t count : counts) {
    parts.push_back(whole.subspan(at, static_cast<size_t>(count)));
    at += static_cast<size_t>(count);
  }
  return parts;
}

class Tcp final : public Communicator {
 public:
  Tcp(int rank, tcp::Mesh mesh) : Communicator(rank, static_cast<int>(mesh.peers.size())) {
    for (tcp::Socket& peer : mesh.peers) channels_.emplace_back(std::move(peer));
    const auto& machines = mesh.machines;
    const auto own = machines.begin() + rank;
    local_size_ = static_cast<int>(std::count(machines.begin(), machines.end(), *own));
    local_rank_ = static_cast<int>(std::count(machines.begin(), own, *own));
  }

  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }
  std::string describe() const override { return "TCP"; }

  [[noreturn]] void abort(const std::string& message, int status) override {
    move_messages(0);
    end_if_stopped();
    std::fflush(stdout);
    std::fprintf(stderr, "binade: rank %d: %s\n", rank(), message.c_str());
    std::fflush(stderr);
    stop_others(status);
    std::_Exit(status);
  }

  [[noreturn]] void abort_stuck(const Operation& stuck, double seconds) override {
    const RollCall answers = roll_call();
    const bool all_answer = std::all_of(answers.begin(), answers.end(),
                                        [](const auto& one) { return one.has_value(); });
    report(answers, ranks::describe(answers, all_answer ? last() : stuck, seconds), 2);
  }

  void await_end(double seconds) override {
    for (const tcp::Deadline end = tcp::after(seconds); tcp::milliseconds_until(end) > 0;) {
      move_messages(std::min(tcp::milliseconds_until(end), 100));
      end_if_stopped();
    }
  }

  void finalize() override {
    release_device();
    for (Channel& one : channels_) one.send_word(Frame::bye, "");
    flush(tcp::after(timeout()));
    channels_.clear();
  }

 protected:
  Pending start_all_to_all(Bytes send, Counts send_counts, MutableBytes receive,
                           Counts receive_counts) override {
    return exchange(parts_of(send, send_counts), parts_of(receive, receive_counts));
  }

  // Added in the order of ranks.
  Pending start_reduce_scatter(Bytes send, MutableBytes receive, Counts counts) override {
    auto all = std::make_shared<std::vector<std::byte>>(receive.size() * ranks());
    const std::vector<int64_t> own(ranks(), std::ssize(receive));
    auto pending = std::make_shared<Pending>(
        exchange(parts_of(send, counts), parts_of(MutableBytes(*all), own)));
    return Pending([all, pending, receive] {
      pending->wait();
      const auto* const terms = reinterpret_cast<const float*>(all->data());
      auto* const sums = reinterpret_cast<float*>(receive.data());
      const size_t count = receive.size() / sizeof(float);
      for (size_t i = 0; i < all->size() / sizeof(float); ++i)
        sums[i % count] = i < count ? terms[i] : sums[i % count] + terms[i];
    });
  }

  Pending start_all_gather(Bytes send, MutableBytes receive, Counts counts) override {
    return exchange(std::vector<Bytes>(ranks(), send), parts_of(receive, counts));
  }

  Pending start_gather(Bytes send, MutableBytes receive, Counts counts) override {
    std::vector<Bytes> to(ranks());
    to[0] = send;
    return exchange(to, rank() == 0 ? parts_of(receive, counts) : nothing());
  }

  Pending start_broadcast(MutableBytes bytes) override {
    std::vector<Bytes> to(ranks());
    std::vector<MutableBytes> from = nothing();
    if (rank() == 0) {
      std::fill(to.begin() + 1, to.end(), bytes);
    } else {
      from[0] = bytes;
    }
    return exchange(to, from);
  }

 private:
  size_t ranks() const { return channels_.size(); }
  std::vector<MutableBytes> nothing() const { return std::vector<MutableBytes>(ranks()); }

  // Sends to every rank and receives from every rank, and from itself.
  Pending exchange(const std::vector<Bytes>& to, const std::vector<MutableBytes>& from) {
    const auto transfer = std::make_shared<int>(0);
    const tcp::Label label{last().number, history()};
    const auto self = static_cast<size_t>(rank());
    if (!from[self].empty()) std::memcpy(from[self].data(), to[self].data(), from[self].size());
    for (size_t peer = 0; peer < ranks(); ++peer) {
      if (peer == self) continue;
      channels_[peer].send(label, to[peer], transfer);
      channels_[peer].receive(label, from[peer], transfer);
    }
    for (Channel& one : channels_) one.begun(label);
    move_messages(0);
    end_if_broken();
    return Pending([this, transfer] { wait(*transfer); });
  }

  void wait(const int& transfer) {
    const auto begin = WatchClock::now();
    bool warned = false;
    while (transfer > 0) {
      move_messages(50);
      end_if_broken();
      if (transfer > 0) watch(begin, warned);
    }
    add_waited(elapsed(begin));
  }

  void watch(WatchClock::time_point begin, bool& warned) {
    check_device();
    const double seconds = elapsed(begin);
    const bool expired = seconds >= timeout();
    if (!expired && (warned || seconds < std::min(warning_time, timeout() / 2))) return;
    const RollCall answers = roll_call();
    const std::string text = ranks::describe(answers, last(), seconds);
    if (expired) report(answers, text, 2);
    if (speaker(answers) == rank()) {
      std::fprintf(stderr, "binade: rank %d: %s\n", rank(), text.c_str());
      std::fflush(stderr);
    }
    warned = true;
  }

  // Sends and receives what can be now; waits so long for something to do.
  void move_messages(int milliseconds) {
    std::vector<pollfd> events;
    for (const Channel& one : channels_)
      events.push_back({.fd = one.is_open() ? one.handle() : -1,
                        .events = static_cast<short>(POLLIN | (one.has_to_write() ? POLLOUT : 0)),
                        .revents = 0});
    if (::poll(events.data(), static_cast<nfds_t>(events.size()), milliseconds) <= 0) return;
    for (size_t peer = 0; peer < events.size(); ++peer) {
      if ((events[peer].revents & POLLOUT) != 0) channels_[peer].write();
      if ((events[peer].revents & ~POLLOUT) == 0) continue;
      channels_[peer].read([&](const tcp::Word& word) { hear(static_cast<int>(peer), word); });
    }
  }

  void hear(int from, const tcp::Word& word) {
    Channel& channel = channels_[static_cast<size_t>(from)];
    if (word.kind == Frame::question) {
      channel.send_word(Frame::answer, RollCallMessage::of(last()).bytes());
    } else if (word.kind == Frame::answer) {
      answers_[static_cast<size_t>(from)] = RollCallMessage::from(word.text).operation();
    } else if (word.kind == Frame::stop) {
      stopped_ = std::atoi(word.text.c_str());
    } else if (word.kind == Frame::complaint) {
      complaint_ = word.text;
    }
  }

  void end_if_stopped() const {
    if (!stopped_) return;
    std::fflush(stdout);
    std::_Exit(*stopped_);
  }

  // Ends all ranks after a fault that the messages have shown: another rank has ended them, or
  // asks this one to; it has died; it is out of step.
  void end_if_broken() {
    end_if_stopped();
    if (!complaint_.empty()) {
      const size_t space = complaint_.find(' ');
      abort(complaint_.substr(space + 1), std::atoi(complaint_.c_str()));
    }
    for (size_t peer = 0; peer < ranks(); ++peer) {
      if (const std::string fault = channels_[peer].fault(); !fault.empty()) {
        report(roll_call(),
               fmt::format("lost rank {} in {}, {}: {}", peer, phase(), last().name, fault),
               killed_status);
      }
      if (const tcp::Unexpected* const other = channels_[peer].unexpected()) {
        const RollCall answers = roll_call();
        const Operation first = answers[static_cast<size_t>(speaker(answers))].value_or(last());
        report(answers,
               fmt::format("{}; rank {} got {} bytes of collective {} from rank {}",
                           ranks::describe(answers, first, 0), rank(), other->bytes,
                           other->label.number, peer),
               2);
      }
    }
  }

  // Where the others stand: those that wait, too, answer at once.
  RollCall roll_call() {
    answers_.assign(ranks(), {});
    answers_[static_cast<size_t>(rank())] = last();
    for (Channel& one : channels_) one.send_word(Frame::question, "");
    for (const tcp::Deadline end = tcp::after(answer_time); tcp::milliseconds_until(end) > 0;) {
      move_messages(std::min(tcp::milliseconds_until(end), 20));
      end_if_stopped();
      bool complete = true;
      for (size_t peer = 0; peer < ranks(); ++peer)
        complete &= answers_[peer].has_value() || !channels_[peer].is_open();
      if (complete) break;
    }
    return answers_;
  }

  // Ends all ranks with one message: the speaker's.
  [[noreturn]] void report(const RollCall& answers, const std::string& text, int status) {
    if (const int first = speaker(answers); first != rank()) {
      channels_[static_cast<size_t>(first)].send_word(Frame::complaint,
                                                      std::to_string(status) + " " + text);
      await_end(speaking_time);
    }
    abort(text, status);
    std::abort();  // GCC does not see that the call above never returns
  }

  // Whether everything was sent by then.
  void flush(tcp::Deadline deadline) {
    const auto writes = [](const Channel& one) { return one.has_to_write(); };
    while (std::any_of(channels_.begin(), channels_.end(), writes) &&
           tcp::milliseconds_until(deadline) > 0)
      move_messages(std::min(tcp::milliseconds_until(deadline), 20));
  }

  // A connection that is closed with unread messages may lose what it has sent: they are read, for
  // a second, until the others have ended.
  void stop_others(int status) {
    for (Channel& one : channels_) one.send_word(Frame::stop, std::to_string(status));
    const tcp::Deadline deadline = tcp::after(1);
    flush(deadline);
    for (const Channel& one : channels_) {
      if (one.is_open()) ::shutdown(one.handle(), SHUT_WR);
    }
    const auto is_open = [](const Channel& one) { return one.is_open(); };
    while (std::any_of(channels_.begin(), channels_.end(), is_open) &&
           tcp::milliseconds_until(deadline) > 0)
      move_messages(std::min(tcp::milliseconds_until(deadline), 20));
  }

  std::vector<Channel> channels_;  // by rank; this one's is not open
  int local_size_ = 1, local_rank_ = 0;
  RollCall answers_;
  std::optional<int> stopped_;
  std::string complaint_;
};

// The same text on all ranks of a machine. Containers have names of their own.
std::string machine_name() {
  std::array<char, 100> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(name.data()) + " " + boot.substr(0, 8);
}

}  // namespace

std::shared_ptr<Communicator> init_tcp(const Environment& here) {
  const auto variable = [](const char* name) { return std::getenv(name); };
  tcp::Mesh mesh = tcp::meet({.place = tcp::meeting_place(variable, here),
                              .rank = here.rank,
                              .size = here.size,
                              .machine = machine_name()});
  return std::make_shared<Tcp>(here.rank, std::move(mesh));
}

}  // namespace binade::ranks
