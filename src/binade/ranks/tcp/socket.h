#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace binade::ranks::tcp {

using Deadline = std::chrono::steady_clock::time_point;

Deadline after(double seconds);
// Milliseconds for poll(); 0 when the deadline has passed.
int milliseconds_until(Deadline deadline);

// A connection or a listener of TCP, closed with the object. Not inherited by other programs.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int handle() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }
  void close();

 private:
  int handle_ = -1;
};

struct Address {
  std::string host;
  int port = 0;
};

// "node1:29500", "[fe80::1]:29500".
std::string to_string(const Address& address);

// Whether a name means this machine to itself alone: "localhost", "127.0.0.1", "::1".
bool is_loopback(const std::string& host);

// Accepts connections to a port, 0 for any free one: only those from this machine if `host` is a
// loopback's, otherwise all. Not open if that cannot be, with the reason in `why`.
Socket listen_at(const std::string& host, int port, std::string& why);
// The next connection that waits, or none. Reads and writes of it do not block.
Socket accept_from(const Socket& listener);
// A connection whose reads and writes do not block. Not open if there is none by then, with the
// reason in `why`.
Socket connect_to(const Address& address, Deadline deadline, std::string& why);

// This end of a connection: its numeric host, and its port.
Address own_address(const Socket& socket);

// Whether all bytes were sent, or received, by then. No connection is used after a failure.
bool send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
bool receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);

}  // namespace binade::ranks::tcp
