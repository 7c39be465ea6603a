#include "binade/ranks/tcp/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace binade::ranks::tcp {
namespace {

constexpr size_t most_arriving = 8192;  // strangers who say nothing must not use up memory

bool is_complete(size_t received) { return received == sizeof(Introduction); }

bool is_ours(const Introduction& one) {
  const Introduction expected;
  return one.magic == expected.magic && one.byte_order == expected.byte_order;
}

}  // namespace

std::string text_in(std::span<const char> field) {
  return {field.begin(), std::find(field.begin(), field.end(), '\0')};
}

void put_text(std::span<char> field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), field.size()), field.begin());
}

bool has_left(const Socket& socket) {
  char byte = 0;
  const ssize_t received = ::recv(socket.handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
}

bool Reception::read_more(Arriving& arriving) {
  const auto bytes = std::as_writable_bytes(std::span(&arriving.guest.introduction, 1));
  while (!is_complete(arriving.received)) {
    const auto rest = bytes.subspan(arriving.received);
    const ssize_t received =
        ::recv(arriving.guest.socket.handle(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (received < 0) return errno == EAGAIN || errno == EINTR;
    if (received == 0) return false;
    arriving.received += static_cast<size_t>(received);
  }
  return is_ours(arriving.guest.introduction);
}

std::optional<Guest> Reception::take_complete() {
  std::erase_if(arriving_, [](Arriving& one) { return !read_more(one); });
  const auto found = std::find_if(arriving_.begin(), arriving_.end(),
                                  [](const Arriving& one) { return is_complete(one.received); });
  if (found == arriving_.end()) return {};
  Guest guest = std::move(found->guest);
  arriving_.erase(found);
  return guest;
}

std::optional<Guest> Reception::next(Deadline deadline, const std::vector<const Socket*>& watched) {
  for (;;) {
    if (auto guest = take_complete()) return guest;
    std::vector<pollfd> events{{.fd = listener_.handle(), .events = POLLIN, .revents = 0}};
    for (const Arriving& one : arriving_)
      events.push_back({.fd = one.guest.socket.handle(), .events = POLLIN, .revents = 0});
    for (const Socket* one : watched)
      events.push_back({.fd = one->handle(), .events = POLLRDHUP, .revents = 0});
    const int ready =
        ::poll(events.data(), static_cast<nfds_t>(events.size()), milliseconds_until(deadline));
    if (ready == 0) return {};
    const auto first_watched = events.begin() + 1 + std::ssize(arriving_);
    if (ready > 0 && std::any_of(first_watched, events.end(),
                                 [](const pollfd& one) { return one.revents != 0; }))
      return {};
    for (Socket next = accept_from(listener_); next.is_open(); next = accept_from(listener_)) {
      if (arriving_.size() < most_arriving) arriving_.push_back({{std::move(next), {}}, 0});
    }
  }
}

}  // namespace binade::ranks::tcp
