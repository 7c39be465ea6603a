#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "binade/serve/service.h"

namespace binade::cli {

// Fails if the program was built without an HTTP library.
void check_http_server();

// Serves a model by HTTP.
class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    int port = 8000;           // 0: one that is free
    std::string api_key = {};  // that requests must have; empty: none
    int64_t body_bytes = 4 << 20;
    int64_t connections = 300;  // that are served at once
  };

  // Begins to listen. Fails if it cannot. The service must outlive it.
  HttpServer(serve::Service& service, const Options& options);
  ~HttpServer();

  int port() const;
  // Answers requests until stop(), from another thread, has let the running answers end.
  void run();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace binade::cli
