#include "binade/ranks/tcp/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "binade/base/error.h"
#include "binade/ranks/tcp/reception.h"

// Ranks are threads of the test here, on the loopback.
namespace binade::ranks::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int unused_port() {
  std::string why;
  return own_address(listen_at("127.0.0.1", 0, why)).port;
}

Meeting meeting_of(int port, int rank, int size, double patience = 60) {
  return {.place = {"127.0.0.1", port},
          .rank = rank,
          .size = size,
          .machine = "machine " + std::to_string(rank / 2),
          .warning_time = 30,
          .patience = patience};
}

struct Met {
  Mesh mesh;
  std::string error;
};

Met met(const Meeting& meeting) {
  try {
    return {meet(meeting), ""};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

std::future<Met> start(const Meeting& meeting) {
  return std::async(std::launch::async, [meeting] { return met(meeting); });
}

Socket stranger(int port) {
  std::string why;
  Socket socket;
  const Deadline deadline = after(30);
  while (!socket.is_open() && milliseconds_until(deadline) > 0)
    socket = connect_to({"127.0.0.1", port}, deadline, why);
  return socket;
}

void say(const Socket& socket, const std::string& text) {
  send_all(socket, std::as_bytes(std::span(text)), after(5));
}

TEST(Rendezvous, ConnectsEveryRankWithEveryOther) {
  const int port = unused_port();
  std::vector<std::future<Met>> ranks;
  for (const int rank : {3, 1, 4, 0, 2}) ranks.push_back(start(meeting_of(port, rank, 5)));
  std::vector<Mesh> meshes(5);
  for (size_t i = 0; i < 5; ++i) {
    Met one = ranks[i].get();
    ASSERT_EQ(one.error, "");
    meshes[std::array{3, 1, 4, 0, 2}[i]] = std::move(one.mesh);
  }
  for (size_t from = 0; from < 5; ++from) {
    EXPECT_THAT(meshes[from].machines, ::testing::ElementsAre("machine 0", "machine 0", "machine 1",
                                                              "machine 1", "machine 2"));
    EXPECT_FALSE(meshes[from].peers[from].is_open());
    for (size_t to = 0; to < 5; ++to) {
      if (to != from) say(meshes[from].peers[to], std::to_string(10 * from + to));
    }
  }
  for (size_t from = 0; from < 5; ++from) {
    for (size_t to = 0; to < 5; ++to) {
      if (to == from) continue;
      std::string text(from == 0 ? 1 : 2, ' ');
      ASSERT_TRUE(
          receive_all(meshes[to].peers[from], std::as_writable_bytes(std::span(text)), after(5)));
      EXPECT_EQ(text, std::to_string(10 * from + to));
    }
  }
}

// A scanner of ports, a browser, another version, one that says nothing; and a rank that was
// started again.
TEST(Rendezvous, LetsNoStrangerDisturbIt) {
  const int port = unused_port();
  auto first = start(meeting_of(port, 0, 3));
  const Socket silent = stranger(port), half = stranger(port), browser = stranger(port);
  say(half, std::string("BINADE\0\1", 8));
  say(browser, "GET / HTTP/1.1\r\n" + std::string(1000, 'x'));
  stranger(port).close();
  Introduction ended;
  ended.rank = 1;
  ended.size = 3;
  {
    const Socket left = stranger(port);
    send_all(left, std::as_bytes(std::span(&ended, 1)), after(5));
  }
  auto second = start(meeting_of(port, 2, 3));
  auto third = start(meeting_of(port, 1, 3));
  EXPECT_EQ(second.get().error, "");
  EXPECT_EQ(third.get().error, "");
  EXPECT_EQ(first.get().error, "");
}

TEST(Rendezvous, NamesTheRanksThatDoNotCome) {
  const int port = unused_port();
  auto first = start(meeting_of(port, 0, 12, 1));
  auto other = start(meeting_of(port, 3, 12, 30));
  const std::string expected =
      "WORLD_SIZE: expected 12 ranks at 127.0.0.1:" + std::to_string(port) +
      " (MASTER_ADDR, MASTER_PORT), found no ranks 1, 2, 4, 5, 6, 7, 8, 9 and 2 more within 1 s";
  EXPECT_THAT(first.get().error, HasSubstr(expected));
  EXPECT_THAT(other.get().error, AllOf(HasSubstr("rank 0 at 127.0.0.1"), HasSubstr(expected)));
}

TEST(Rendezvous, NamesTheMasterThatIsNotThere) {
  const int port = unused_port();
  EXPECT_THAT(met(meeting_of(port, 2, 3, 0.3)).error,
              AllOf(HasSubstr("MASTER_ADDR: expected rank 0 at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("Connection refused"), HasSubstr("may rank 2 reach")));
}

TEST(Rendezvous, NamesAHostThatDoesNotExist) {
  Meeting meeting = meeting_of(1, 1, 2, 0.2);
  meeting.place.host = "no such host";
  EXPECT_THAT(met(meeting).error, HasSubstr("'no such host': "));
}

TEST(Rendezvous, NamesAPortInUse) {
  std::string why;
  const Socket other = listen_at("127.0.0.1", 0, why);
  EXPECT_THAT(met(meeting_of(own_address(other).port, 0, 2)).error,
              AllOf(HasSubstr("MASTER_PORT: expected a free port"), HasSubstr("in use")));
}

TEST(Rendezvous, RefusesAnotherWorldSize) {
  const int port = unused_port();
  auto first = start(meeting_of(port, 0, 3));
  const std::string other = met(meeting_of(port, 3, 4)).error;
  const std::string expected =
      "WORLD_SIZE: expected 3 on all ranks, as on rank 0, found 4 on rank 3";
  EXPECT_THAT(first.get().error, HasSubstr(expected));
  EXPECT_THAT(other, HasSubstr(expected));
}

TEST(Rendezvous, RefusesTwoOfOneRank) {
  const int port = unused_port();
  auto first = start(meeting_of(port, 0, 3));
  auto second = start(meeting_of(port, 2, 3));
  auto third = start(meeting_of(port, 2, 3));
  const std::string expected =
      "RANK: expected each of 0 to 2 once, found another rank 2 on machine 1";
  EXPECT_THAT(first.get().error, HasSubstr(expected));
  EXPECT_THAT(second.get().error, HasSubstr(expected));
  EXPECT_THAT(third.get().error, HasSubstr(expected));
}

// An HTTP server at MASTER_PORT, say.
TEST(Rendezvous, NamesAnotherProgramAtThatPort) {
  std::string why;
  const Socket listener = listen_at("127.0.0.1", 0, why);
  auto rank = start(meeting_of(own_address(listener).port, 1, 2));
  Socket guest;
  while (!guest.is_open()) guest = accept_from(listener);
  say(guest, std::string(64, 'x'));
  EXPECT_THAT(rank.get().error, HasSubstr("found another program"));
}

}  // namespace
}  // namespace binade::ranks::tcp
