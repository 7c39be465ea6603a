#include "binade/ranks/tcp/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace binade::ranks::tcp {
namespace {

std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + seed);
  return bytes;
}

// Both ends of a connection.
class Channels : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    left_ = std::make_unique<Channel>(Socket(ends[0]));
    right_ = std::make_unique<Channel>(Socket(ends[1]));
  }

  // Moves all that there is.
  void move() {
    for (int turn = 0; turn < 3 || left_->has_to_write(); ++turn) {
      if (left_->is_open()) left_->write();
      right_->read([&](const Word& word) { heard_.push_back(word); });
      ASSERT_LT(turn, 100000);
    }
  }

  std::unique_ptr<Channel> left_, right_;
  std::vector<Word> heard_;
  Transfer sent_ = std::make_shared<int>(0), received_ = std::make_shared<int>(0);
};

TEST_F(Channels, CarryMessagesOfAnyLengthInTheirOrder) {
  const Label first{1, 11}, second{2, 22};
  const auto small = pattern(3, 1), large = pattern(3'000'001, 2);
  std::vector<std::byte> got_small(3), got_large(large.size());
  left_->send(first, small, sent_);
  left_->send(second, large, sent_);
  right_->receive(first, got_small, received_);
  right_->begun(first);
  right_->receive(second, got_large, received_);
  right_->begun(second);
  EXPECT_EQ(*sent_, 2);
  EXPECT_EQ(*received_, 2);
  move();
  EXPECT_EQ(*sent_, 0);
  EXPECT_EQ(*received_, 0);
  EXPECT_EQ(got_small, small);
  EXPECT_EQ(got_large, large);
  EXPECT_EQ(right_->unexpected(), nullptr);
}

// The other rank may be ahead, even in the middle of a message when this one begins to expect it.
TEST_F(Channels, KeepWhatArrivesEarly) {
  const auto one = pattern(5, 3), two = pattern(1'000'003, 4);
  std::vector<std::byte> got_one(5), got_two(two.size());
  left_->send({1, 1}, one, sent_);
  left_->send({2, 2}, two, sent_);
  left_->write();
  right_->read([](const Word&) {});
  right_->receive({1, 1}, got_one, received_);
  right_->begun({1, 1});
  EXPECT_EQ(*received_, 0);
  right_->receive({2, 2}, got_two, received_);
  right_->begun({2, 2});
  EXPECT_EQ(*received_, 1);
  move();
  EXPECT_EQ(*received_, 0);
  EXPECT_EQ(got_one, one);
  EXPECT_EQ(got_two, two);
}

TEST_F(Channels, CarryWordsBetweenMessages) {
  const auto data = pattern(100, 5);
  std::vector<std::byte> got(100);
  left_->send_word(Frame::question, "");
  left_->send({1, 1}, data, sent_);
  left_->send_word(Frame::complaint, "2 no more disk");
  right_->receive({1, 1}, got, received_);
  right_->begun({1, 1});
  move();
  EXPECT_EQ(got, data);
  ASSERT_EQ(heard_.size(), 2u);
  EXPECT_EQ(heard_[0].kind, Frame::question);
  EXPECT_EQ(heard_[0].text, "");
  EXPECT_EQ(heard_[1].kind, Frame::complaint);
  EXPECT_EQ(heard_[1].text, "2 no more disk");
}

// Of the expected number, but with another length, another history; of a later one; of one that
// expects nothing.
TEST_F(Channels, NoticeDataOfAnotherCollective) {
  const struct {
    Label label;
    size_t bytes;
    bool expects;
  } cases[] = {{{4, 44}, 9, true}, {{4, 45}, 8, true}, {{5, 55}, 8, true}, {{4, 44}, 8, false}};
  for (const auto& one : cases) {
    SetUp();
    const auto data = pattern(one.bytes, 6);
    std::vector<std::byte> got(8);
    if (one.expects) right_->receive({4, 44}, got, received_);
    right_->begun({4, 44});
    left_->send(one.label, data, sent_);
    left_->send_word(Frame::answer, "12");
    move();
    ASSERT_NE(right_->unexpected(), nullptr);
    ASSERT_FALSE(heard_.empty()) << "roll calls go on";
    EXPECT_EQ(heard_.back().text, "12");
    heard_.clear();
    EXPECT_EQ(right_->unexpected()->label, one.label);
    EXPECT_EQ(right_->unexpected()->bytes, std::ssize(data));
  }
}

TEST_F(Channels, NoticeEarlyDataThatTheNextCollectiveDoesNotExpect) {
  const auto data = pattern(8, 7);
  left_->send({2, 2}, data, sent_);
  right_->begun({1, 1});
  move();
  EXPECT_EQ(right_->unexpected(), nullptr);
  right_->begun({2, 2});
  ASSERT_NE(right_->unexpected(), nullptr);
  EXPECT_EQ(right_->unexpected()->label.number, 2);
}

TEST_F(Channels, KnowADeathFromAnEnd) {
  std::vector<std::byte> got(1);
  right_->receive({1, 1}, got, received_);
  left_.reset();
  right_->read([](const Word&) {});
  EXPECT_EQ(right_->fault(), "its process has ended");
  EXPECT_FALSE(right_->is_open());

  SetUp();
  left_->send_word(Frame::bye, "");
  move();
  left_.reset();
  right_->read([](const Word&) {});
  EXPECT_FALSE(right_->is_open());
  EXPECT_EQ(right_->fault(), "");
  right_->receive({1, 1}, got, received_);
  EXPECT_EQ(right_->fault(), "it has ended");
}

// A collective that has all of its data from a dead rank may still wait for others: the next one
// names the death.
TEST_F(Channels, FindADeathInTheFirstCollectiveThatItTookNoPartIn) {
  const auto data = pattern(2, 9);
  std::vector<std::byte> got(2);
  right_->receive({1, 1}, got, received_);
  right_->begun({1, 1});
  left_->send({1, 1}, data, sent_);
  move();
  left_.reset();
  right_->read([](const Word&) {});
  EXPECT_FALSE(right_->is_open());
  EXPECT_EQ(got, data);
  EXPECT_EQ(right_->fault(), "");
  right_->receive({2, 2}, got, received_);
  EXPECT_EQ(right_->fault(), "its process has ended");
}

TEST_F(Channels, DoNotLoseDataForOneThatHasEnded) {
  left_->send_word(Frame::bye, "");
  move();
  left_.reset();
  right_->read([](const Word&) {});
  const auto data = pattern(2, 8);
  right_->send({1, 1}, data, sent_);
  EXPECT_EQ(*sent_, 1);
  EXPECT_EQ(right_->fault(), "it has ended");
}

TEST_F(Channels, RefuseWhatIsNoMessage) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const Socket raw(ends[0]);
  Channel channel{Socket(ends[1])};
  const std::string text = "GET / HTTP/1.1\r\nHost: localhost:29500\r\n\r\n";
  ASSERT_TRUE(send_all(raw, std::as_bytes(std::span(text)), after(5)));
  std::vector<std::byte> got(1);
  channel.receive({1, 1}, got, received_);
  channel.read([](const Word&) {});
  EXPECT_EQ(channel.fault(), "it sent what is no message of Binade");
}

}  // namespace
}  // namespace binade::ranks::tcp
