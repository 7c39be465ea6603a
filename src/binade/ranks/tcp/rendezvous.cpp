#include "binade/ranks/tcp/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>

#include "binade/base/error.h"
#include "binade/ranks/tcp/reception.h"

namespace binade::ranks::tcp {
namespace {

constexpr int64_t longest_refusal = 4096;

// What rank 0 answers: the introductions of all ranks, or the text of a refusal.
struct Answer {
  std::array<char, 8> magic = Introduction().magic;
  uint64_t run = 0;  // 0: refused
  int64_t bytes = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::string master_variables(const Meeting& meeting) {
  return to_string(meeting.place) + " (MASTER_ADDR, MASTER_PORT)";
}

std::string missing_ranks(const std::vector<std::optional<Guest>>& guests) {
  std::vector<int> missing;
  for (size_t rank = 1; rank < guests.size(); ++rank) {
    if (!guests[rank]) missing.push_back(static_cast<int>(rank));
  }
  const size_t shown = std::min<size_t>(missing.size(), 8);
  const std::string more =
      shown < missing.size() ? fmt::format(" and {} more", missing.size() - shown) : "";
  return fmt::format("rank{} {}{}", missing.size() == 1 ? "" : "s",
                     fmt::join(missing.begin(), missing.begin() + static_cast<int>(shown), ", "),
                     more);
}

// Says once who is missing.
class MissingMessage {
 public:
  explicit MissingMessage(const Meeting& meeting)
      : meeting_(meeting), at_(after(std::min(meeting.warning_time, meeting.patience / 2))) {}

  bool is_due() const { return !said_ && std::chrono::steady_clock::now() >= at_; }
  Deadline next(Deadline deadline) const { return said_ ? deadline : std::min(at_, deadline); }
  void say(const std::string& text) {
    said_ = true;
    std::fputs(fmt::format("binade: rank {}: {}\n", meeting_.rank, text).c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  const Meeting& meeting_;
  Deadline at_;
  bool said_ = false;
};

Introduction introduction_of(const Meeting& meeting) {
  Introduction own;
  own.rank = meeting.rank;
  own.size = meeting.size;
  put_text(own.machine, meeting.machine);
  return own;
}

// ---- rank 0 ----

// What is wrong with a guest; empty: nothing.
Facts fault_of(const Introduction& guest, const std::vector<std::optional<Guest>>& guests) {
  const int size = static_cast<int>(guests.size());
  const std::string who = fmt::format("rank {} on {}", guest.rank, text_in(guest.machine));
  if (guest.size != size)
    return {.argument = "WORLD_SIZE",
            .expected = fmt::format("{} on all ranks, as on rank 0", size),
            .found = fmt::format("{} on {}", guest.size, who)};
  if (guest.rank < 1 || guest.rank >= size || guests[static_cast<size_t>(guest.rank)])
    return {.argument = "RANK",
            .expected = fmt::format("each of 0 to {} once", size - 1),
            .found = "another " + who,
            .hint = "give every process a RANK of its own, and every job a MASTER_PORT of its own"};
  return {};
}

[[noreturn]] void refuse(Guest* last, std::vector<std::optional<Guest>>& guests, Facts facts) {
  const std::string text = Error("ranks", facts).what();
  const Answer answer{.bytes = std::min<int64_t>(std::ssize(text), longest_refusal)};
  const auto tell = [&](const Guest& guest) {
    const auto sent = std::as_bytes(std::span(text)).first(static_cast<size_t>(answer.bytes));
    if (send_all(guest.socket, bytes_of(answer), after(1))) send_all(guest.socket, sent, after(1));
  };
  if (last != nullptr) tell(*last);
  for (const auto& guest : guests) {
    if (guest) tell(*guest);
  }
  fail("ranks", std::move(facts));
}

// A rank that has ended while it waited, and may be started again.
void forget_those_who_left(std::vector<std::optional<Guest>>& guests) {
  for (auto& guest : guests) {
    if (guest && has_left(guest->socket)) guest.reset();
  }
}

std::vector<std::optional<Guest>> await_guests(const Meeting& meeting, Reception& reception) {
  std::vector<std::optional<Guest>> guests(static_cast<size_t>(meeting.size));
  const Deadline deadline = after(meeting.patience);
  MissingMessage message(meeting);
  for (;;) {
    std::vector<const Socket*> present;
    for (const auto& guest : guests) {
      if (guest) present.push_back(&guest->socket);
    }
    if (std::ssize(present) == meeting.size - 1) return guests;
    auto guest = reception.next(message.next(deadline), present);
    forget_those_who_left(guests);
    if (guest) {
      Facts fault = fault_of(guest->introduction, guests);
      if (!fault.argument.empty()) refuse(&*guest, guests, std::move(fault));
      guests[static_cast<size_t>(guest->introduction.rank)] = std::move(guest);
    } else if (std::chrono::steady_clock::now() >= deadline) {
      refuse(
          nullptr, guests,
          {.argument = "WORLD_SIZE",
           .expected = fmt::format("{} ranks at {}", meeting.size, master_variables(meeting)),
           .found = fmt::format("no {} within {:.0f} s", missing_ranks(guests), meeting.patience),
           .hint = "start every rank with the MASTER_ADDR and MASTER_PORT of rank 0"});
    } else if (message.is_due()) {
      message.say(fmt::format("waiting for {} of {} at {}", missing_ranks(guests), meeting.size,
                              master_variables(meeting)));
    }
  }
}

uint64_t new_run_number() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

Mesh meet_as_first(const Meeting& meeting) {
  std::string why;
  Socket listener = listen_at(meeting.place.host, meeting.place.port, why);
  if (!listener.is_open()) {
    fail("ranks", {.argument = "MASTER_PORT",
                   .expected = fmt::format("a free port on rank 0's machine, to listen at {}",
                                           to_string(meeting.place)),
                   .found = why,
                   .hint = "give another MASTER_PORT to all ranks of this job"});
  }
  Reception reception(std::move(listener));
  std::vector<std::optional<Guest>> guests = await_guests(meeting, reception);
  std::vector<Introduction> all{introduction_of(meeting)};
  for (size_t rank = 1; rank < guests.size(); ++rank) all.push_back(guests[rank]->introduction);
  const Answer answer{.run = new_run_number(),
                      .bytes = std::ssize(all) * static_cast<int64_t>(sizeof(Introduction))};
  Mesh mesh;
  for (size_t rank = 0; rank < guests.size(); ++rank) {
    mesh.machines.push_back(text_in(all[rank].machine));
    mesh.peers.emplace_back();
    if (rank == 0) continue;
    mesh.peers.back() = std::move(guests[rank]->socket);
    const Deadline deadline = after(meeting.warning_time);
    if (send_all(mesh.peers.back(), bytes_of(answer), deadline) &&
        send_all(mesh.peers.back(), std::as_bytes(std::span(all)), deadline))
      continue;
    fail("ranks", {.argument = fmt::format("rank {} on {}", rank, mesh.machines.back()),
                   .expected = "a connection",
                   .found = "one that broke while the ranks met"});
  }
  return mesh;
}

// ---- the others ----

struct Invitation {
  uint64_t run = 0;
  std::vector<Introduction> all;  // by rank
};

[[noreturn]] void fail_at_master(const Meeting& meeting, const std::string& why) {
  fail("ranks", {.argument = "MASTER_ADDR",
                 .expected = "rank 0 at " + master_variables(meeting),
                 .found = why,
                 .hint = fmt::format("is rank 0 running, on that machine, and may rank {} reach "
                                     "that port?",
                                     meeting.rank)});
}

// None if rank 0 has gone before it answered.
std::optional<Invitation> read_answer(const Meeting& meeting, const Socket& master,
                                      Deadline deadline) {
  Answer answer;
  answer.magic = {};
  if (!receive_all(master, writable_bytes_of(answer), deadline)) return {};
  if (answer.magic != Introduction().magic) fail_at_master(meeting, "another program");
  Invitation invitation{answer.run, std::vector<Introduction>(static_cast<size_t>(meeting.size))};
  const auto table = std::as_writable_bytes(std::span(invitation.all));
  if (answer.run == 0 && answer.bytes >= 0 && answer.bytes <= longest_refusal) {
    std::string text(static_cast<size_t>(answer.bytes), '\0');
    receive_all(master, std::as_writable_bytes(std::span(text)), deadline);
    fail("ranks", {.argument = "rank 0 at " + to_string(meeting.place) + " says: " + text});
  }
  if (answer.bytes != std::ssize(table)) fail_at_master(meeting, "another version of Binade");
  if (!receive_all(master, table, deadline)) return {};
  return invitation;
}

// Connects to rank 0, which may start later, and again if it ends before all have come.
Invitation join(const Meeting& meeting, Introduction own, Socket& listener, Socket& master) {
  const Deadline deadline = after(meeting.patience);
  MissingMessage message(meeting);
  std::string why;
  while (std::chrono::steady_clock::now() < deadline) {
    if (message.is_due())
      message.say("waiting for rank 0 at " + master_variables(meeting) + ": " + why);
    master = connect_to(meeting.place, message.next(deadline), why);
    if (master.is_open()) {
      const std::string host = own_address(master).host;
      if (!listener.is_open()) {
        listener = listen_at(is_loopback(meeting.place.host) ? host : "", 0, why);
        if (!listener.is_open())
          fail("ranks", {.argument = "a port for other ranks", .found = why});
        own.port = own_address(listener).port;
      }
      own.host = {};
      if (!is_loopback(host)) put_text(own.host, host);
      why = "it ended before all ranks had come";
      if (send_all(master, bytes_of(own), deadline)) {
        if (auto invitation = read_answer(meeting, master, deadline)) return *invitation;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  fail_at_master(meeting, fmt::format("none within {:.0f} s: {}", meeting.patience, why));
}

Socket connect_to_rank(const Meeting& meeting, const Introduction& to, const Introduction& own) {
  const std::string host = text_in(to.host);
  const Address address{host.empty() ? meeting.place.host : host, to.port};
  std::string why = "connection lost";
  const Deadline deadline = after(meeting.warning_time);
  Socket socket = connect_to(address, deadline, why);
  if (socket.is_open() && send_all(socket, bytes_of(own), deadline)) return socket;
  fail(
      "ranks",
      {.argument = fmt::format("rank {} on {}", to.rank, text_in(to.machine)),
       .expected = fmt::format("a connection from rank {} to {}", meeting.rank, to_string(address)),
       .found = why,
       .hint = "ranks connect to each other at ports that the system chooses: let them through "
               "the firewall"});
}

Mesh meet_as_other(const Meeting& meeting) {
  Socket listener, master;
  Introduction own = introduction_of(meeting);
  const Invitation invitation = join(meeting, own, listener, master);
  own.run = invitation.run;
  Mesh mesh;
  mesh.peers.resize(static_cast<size_t>(meeting.size));
  for (const Introduction& one : invitation.all) mesh.machines.push_back(text_in(one.machine));
  for (int rank = 1; rank < meeting.rank; ++rank)
    mesh.peers[static_cast<size_t>(rank)] =
        connect_to_rank(meeting, invitation.all[static_cast<size_t>(rank)], own);
  Reception reception(std::move(listener));
  const Deadline deadline = after(meeting.patience);
  for (int missing = meeting.size - 1 - meeting.rank; missing > 0;) {
    auto guest = reception.next(deadline, {&master});
    if (!guest) {
      fail("ranks", {.argument = "ranks above " + std::to_string(meeting.rank),
                     .expected = fmt::format("connections of {} more", missing),
                     .found = std::chrono::steady_clock::now() < deadline ? "the end of rank 0"
                                                                          : "none in time"});
    }
    const Introduction& who = guest->introduction;
    if (who.run != own.run || who.rank <= meeting.rank || who.rank >= meeting.size) continue;
    Socket& place = mesh.peers[static_cast<size_t>(who.rank)];
    if (place.is_open()) continue;
    place = std::move(guest->socket);
    --missing;
  }
  mesh.peers[0] = std::move(master);
  return mesh;
}

}  // namespace

Mesh meet(const Meeting& meeting) {
  return meeting.rank == 0 ? meet_as_first(meeting) : meet_as_other(meeting);
}

}  // namespace binade::ranks::tcp
