#include "cli/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace binade::cli {
namespace {

// The contents of chunks; false if the last is missing.
bool unchunk(const std::string& chunks, std::string& body) {
  for (size_t at = 0; at < chunks.size();) {
    const size_t line = chunks.find("\r\n", at);
    if (line == std::string::npos) return false;
    const size_t size = std::strtoul(chunks.substr(at, line - at).c_str(), nullptr, 16);
    if (size == 0) return true;
    body += chunks.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return false;
}

}  // namespace

Connection::Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    socket_ = -1;
  }
}

Connection::~Connection() {
  if (socket_ >= 0) ::close(socket_);
}

bool Connection::send(const std::string& bytes) const {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

std::string Connection::receive(size_t size) const {
  std::string bytes(size, '\0');
  const ssize_t count = ::recv(socket_, bytes.data(), size, 0);
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

HttpAnswer Connection::answer() const {
  std::string all;
  for (std::string part; !(part = receive(1 << 16)).empty();) all += part;
  HttpAnswer answer;
  const size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = all.substr(0, end);
  answer.status = std::atoi(answer.head.c_str() + answer.head.find(' '));
  const std::string rest = all.substr(end + 4);
  if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
    answer.is_whole = unchunk(rest, answer.body);
  } else {
    answer.body = rest;
    answer.is_whole = true;
  }
  return answer;
}

std::string http_request(const std::string& method, const std::string& path,
                         const std::string& body, const std::string& headers) {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

HttpAnswer http_get(int port, const std::string& path, const std::string& headers) {
  const Connection connection(port);
  connection.send(http_request("GET", path, "", headers));
  return connection.answer();
}

HttpAnswer http_post(int port, const std::string& path, const std::string& body,
                     const std::string& headers) {
  const Connection connection(port);
  connection.send(http_request("POST", path, body, headers));
  return connection.answer();
}

}  // namespace binade::cli
