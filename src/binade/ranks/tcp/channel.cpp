#include "binade/ranks/tcp/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace binade::ranks::tcp {
namespace {

constexpr int64_t longest_word = 1 << 16;
constexpr int64_t longest_message = int64_t{1} << 46;

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void Channel::send(const Label& label, std::span<const std::byte> bytes, const Transfer& transfer) {
  if (bytes.empty()) return;
  ++*transfer;
  if (!ended_.empty()) {
    has_unsent_ = true;
    return;
  }
  outgoing_.push_back({.header = {.label = label, .bytes = std::ssize(bytes)},
                       .word = {},
                       .bytes = bytes,
                       .transfer = transfer});
}

void Channel::send_word(Frame kind, const std::string& text) {
  if (!is_open()) return;
  const std::string word = text.substr(0, longest_word);
  outgoing_.push_back({.header = {.kind = kind, .label = {}, .bytes = std::ssize(word)},
                       .word = word,
                       .bytes = {},
                       .transfer = nullptr});
}

void Channel::receive(const Label& label, std::span<std::byte> bytes, const Transfer& transfer) {
  if (bytes.empty()) return;
  ++*transfer;
  expected_.push_back({label, bytes, transfer});
}

void Channel::begun(const Label& newest) {
  newest_ = newest;
  deliver_early();
}

std::string Channel::fault() const {
  if (ended_.empty() || (expected_.empty() && !has_unsent_)) return "";
  return said_bye_ ? "it has ended" : ended_;
}

// What was on its way is lost, and what is expected never comes.
void Channel::end(std::string why) {
  if (!ended_.empty()) return;
  ended_ = std::move(why);
  drop_outgoing();
  socket_.close();
}

void Channel::drop_outgoing() {
  for (const Outgoing& one : outgoing_) has_unsent_ |= one.transfer != nullptr;
  outgoing_.clear();
}

void Channel::write() {
  while (!outgoing_.empty()) {
    Outgoing& one = outgoing_.front();
    const auto payload = one.word.empty() ? one.bytes : std::as_bytes(std::span(one.word));
    const auto header = std::as_bytes(std::span(&one.header, 1));
    const size_t header_sent = std::min(one.sent, header.size());
    const size_t payload_sent = one.sent - header_sent;
    std::array<iovec, 2> parts = {
        {{const_cast<std::byte*>(header.data()) + header_sent, header.size() - header_sent},
         {const_cast<std::byte*>(payload.data()) + payload_sent, payload.size() - payload_sent}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket_.handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && must_wait()) return;
    // The other rank's last words may still be there to be read: read() finds the end.
    if (sent < 0) return drop_outgoing();
    one.sent += static_cast<size_t>(sent);
    if (one.sent < header.size() + payload.size()) continue;
    if (one.transfer != nullptr) --*one.transfer;
    outgoing_.pop_front();
  }
}

ssize_t Channel::receive_some(std::span<std::byte> into) {
  const ssize_t received = ::recv(socket_.handle(), into.data(), into.size(), MSG_DONTWAIT);
  if (received > 0) return received;
  if (received < 0 && must_wait()) return 0;
  // A process that ends with messages unread resets the connection.
  const bool has_ended = received == 0 || errno == ECONNRESET;
  end(has_ended ? "its process has ended" : std::strerror(errno));
  return 0;
}

void Channel::read(const std::function<void(const Word&)>& hear) {
  while (is_open()) {
    if (header_bytes_ < sizeof(Header)) {
      const auto header = std::as_writable_bytes(std::span(&header_, 1));
      const ssize_t received = receive_some(header.subspan(header_bytes_));
      if (received == 0) return;
      header_bytes_ += static_cast<size_t>(received);
      if (header_bytes_ < sizeof(Header)) continue;
      begin_frame();
    }
    if (!is_open()) return;
    if (!rest_.empty()) {
      const ssize_t received = receive_some(rest_);
      if (received == 0) return;
      rest_ = rest_.subspan(static_cast<size_t>(received));
    }
    if (rest_.empty()) finish_frame(hear);
  }
}

// A header has arrived: decides where its bytes go.
void Channel::begin_frame() {
  const bool is_data = header_.kind == Frame::data;
  if (header_.magic != Header().magic || header_.bytes < 0 ||
      header_.bytes > (is_data ? longest_message : longest_word))
    return end("it sent what is no message of Binade");
  const bool is_of_use = is_data && !wrong_;
  is_early_ = is_of_use && header_.label.number > newest_.number && expected_.empty();
  is_next_ = is_of_use && !is_early_ && matches_next(header_.label, header_.bytes);
  if (is_next_) {
    rest_ = expected_.front().bytes;
    return;
  }
  own_bytes_.resize(static_cast<size_t>(header_.bytes));
  rest_ = own_bytes_;
}

void Channel::finish_frame(const std::function<void(const Word&)>& hear) {
  header_bytes_ = 0;
  const Header header = header_;
  if (header.kind == Frame::data) {
    if (is_next_) return complete_next();
    if (!is_early_) return;  // it is of another collective
    early_.push_back({header.label, std::exchange(own_bytes_, {})});
    return deliver_early();
  }
  if (header.kind == Frame::bye) said_bye_ = true;
  const auto* const text = reinterpret_cast<const char*>(own_bytes_.data());
  hear({header.kind, std::string(text, own_bytes_.size())});
}

// Whether data are those that are expected next; notes it if not.
bool Channel::matches_next(const Label& label, int64_t bytes) {
  if (!expected_.empty() && expected_.front().label == label &&
      std::ssize(expected_.front().bytes) == bytes)
    return true;
  wrong_ = Unexpected{label, bytes};
  return false;
}

void Channel::complete_next() {
  --*expected_.front().transfer;
  expected_.pop_front();
}

// To the collectives that have begun since.
void Channel::deliver_early() {
  while (!early_.empty() && !wrong_) {
    const Early& first = early_.front();
    if (expected_.empty() && first.label.number > newest_.number) return;
    if (!matches_next(first.label, std::ssize(first.bytes))) return;
    std::copy(first.bytes.begin(), first.bytes.end(), expected_.front().bytes.begin());
    early_.pop_front();
    complete_next();
  }
}

}  // namespace binade::ranks::tcp
