#include "binade/ranks/tcp/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace binade::ranks::tcp {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// What a name stands for; none with the reason in `why`.
Found resolve(const std::string& host, int port, std::string& why) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (error != 0) why = "'" + host + "': " + ::gai_strerror(error);
  return {found, &::freeaddrinfo};
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.handle(), level, option, &value, sizeof(value));
}

Socket opened(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Messages leave at once, and a machine that has gone is noticed even while nothing is sent.
void prepare(const Socket& connection) {
  set_option(connection, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(connection, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(connection, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(connection, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(connection, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

Socket listening(int family, const sockaddr* address, socklen_t length, std::string& why) {
  Socket socket = opened(family);
  // A port whose earlier connections are just ending is free.
  if (socket.is_open()) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (socket.is_open() && family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (socket.is_open() && ::bind(socket.handle(), address, length) == 0 &&
      ::listen(socket.handle(), SOMAXCONN) == 0)
    return socket;
  why = std::strerror(errno);
  return {};
}

bool is_ready(const Socket& socket, short events, Deadline deadline) {
  pollfd one{.fd = socket.handle(), .events = events, .revents = 0};
  for (;;) {
    const int ready = ::poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

Socket connected(const addrinfo& to, Deadline deadline, std::string& why) {
  Socket socket = opened(to.ai_family);
  if (!socket.is_open()) {
    why = std::strerror(errno);
    return {};
  }
  int error = ::connect(socket.handle(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t length = sizeof(error);
    if (is_ready(socket, POLLOUT, deadline))
      ::getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0) {
    prepare(socket);
    return socket;
  }
  why = std::strerror(error);
  return {};
}

}  // namespace

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

Socket::Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = std::exchange(other.handle_, -1);
  }
  return *this;
}

void Socket::close() {
  if (handle_ >= 0) ::close(std::exchange(handle_, -1));
}

std::string to_string(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Socket listen_at(const std::string& host, int port, std::string& why) {
  if (is_loopback(host)) {
    const Found found = resolve(host, port, why);
    if (found == nullptr) return {};
    return listening(found->ai_family, found->ai_addr, found->ai_addrlen, why);
  }
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  Socket both = listening(AF_INET6, reinterpret_cast<const sockaddr*>(&any), sizeof(any), why);
  if (both.is_open() || errno != EAFNOSUPPORT) return both;
  sockaddr_in any_v4{};  // a machine without IPv6
  any_v4.sin_family = AF_INET;
  any_v4.sin_addr.s_addr = htonl(INADDR_ANY);
  any_v4.sin_port = any.sin6_port;
  return listening(AF_INET, reinterpret_cast<const sockaddr*>(&any_v4), sizeof(any_v4), why);
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) prepare(socket);
  return socket;
}

Socket connect_to(const Address& address, Deadline deadline, std::string& why) {
  const Found found = resolve(address.host, address.port, why);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    Socket socket = connected(*one, deadline, why);
    if (socket.is_open()) return socket;
  }
  return {};
}

Address own_address(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(socket.handle(), address, &length) != 0 ||
      ::getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  std::string text = host.data();
  // An IPv4 address as sockets of both families write it.
  if (text.starts_with("::ffff:") && text.find('.') != std::string::npos) text = text.substr(7);
  return {text, std::stoi(port.data())};
}

bool send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && !would_block()) return false;
    if (sent < 0 && !is_ready(socket, POLLOUT, deadline)) return false;
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}

bool receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(socket.handle(), bytes.data(), bytes.size(), 0);
    if (received == 0 || (received < 0 && !would_block())) return false;
    if (received < 0 && !is_ready(socket, POLLIN, deadline)) return false;
    if (received > 0) bytes = bytes.subspan(static_cast<size_t>(received));
  }
  return true;
}

}  // namespace binade::ranks::tcp
