#pragma once

#include <string>

namespace binade::cli {

struct HttpAnswer {
  int status = 0;         // 0: none came
  std::string head;       // the status line and headers
  std::string body;       // without the chunks' sizes
  bool is_whole = false;  // the body has its end
};

// A connection to a server on this machine; it closes at the end.
class Connection {
 public:
  explicit Connection(int port);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool send(const std::string& bytes) const;
  // What arrives next, at most `size` bytes; empty: the server has closed it.
  std::string receive(size_t size) const;
  // Everything up to the end of the connection, as an answer.
  HttpAnswer answer() const;

 private:
  int socket_;
};

// A request that asks to close the connection; `headers` end with "\r\n" each.
std::string http_request(const std::string& method, const std::string& path,
                         const std::string& body = {}, const std::string& headers = {});

HttpAnswer http_get(int port, const std::string& path, const std::string& headers = {});
HttpAnswer http_post(int port, const std::string& path, const std::string& body,
                     const std::string& headers = {});

}  // namespace binade::cli
