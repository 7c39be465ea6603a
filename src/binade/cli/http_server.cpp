#include "binade/cli/http_server.h"

#include "binade/base/error.h"

#if BINADE_SERVE

#include <fmt/core.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace binade::cli {
namespace {

using httplib::Request;
using httplib::Response;
using serve::RequestError;

constexpr auto json_type = "application/json";
constexpr std::chrono::seconds read_timeout{10}, write_timeout{30};

void set_status(Response& response, int status) {
  response.status = status;
  if (status == 503) response.set_header("Retry-After", "1");
  if (status == 401) response.set_header("WWW-Authenticate", "Bearer");
}

void refuse(Response& response, const RequestError& error) {
  set_status(response, error.status);
  response.set_content(error.json(), json_type);
}

// Refuses a request whose body is not read, and closes its connection: what follows on it would be
// taken for a request. The library closes it after a provider that returns false.
void refuse_and_close(Response& response, const RequestError& error) {
  set_status(response, error.status);
  response.set_header("Connection", "close");
  const std::string text = error.json();
  response.set_content_provider(text.size(), json_type,
                                [text](size_t begin, size_t length, httplib::DataSink& sink) {
                                  sink.write(text.data() + begin, length);
                                  return false;
                                });
}

// What is wrong with the length that a request states. The library would read a body of no stated
// length without a limit.
std::optional<RequestError> fault_of_length(const Request& request) {
  constexpr auto name = "Content-Length";
  const bool has_body = request.method != "GET" && request.method != "HEAD" &&
                        request.method != "OPTIONS" && request.method != "TRACE";
  const size_t count = request.get_header_value_count(name);
  const std::string length = request.get_header_value(name);
  if (request.has_header("Transfer-Encoding") || (has_body && count == 0))
    return RequestError(411, "expected a body with a Content-Length");
  if (count == 0) return {};
  constexpr size_t most_digits = 18;
  const bool is_number = !length.empty() && length.size() <= most_digits &&
                         length.find_first_not_of("0123456789") == std::string::npos;
  if (count > 1 || !is_number)
    return RequestError(400, "Content-Length: expected one whole number, found another value");
  if (!has_body && length != "0")
    return RequestError(400, "expected no body with " + request.method + ", found one");
  return {};
}

// Takes the same time wherever the texts differ.
bool are_equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i % std::max<size_t>(b.size(), 1)]);
  return difference == 0;
}

// Counts the replies that are being written.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

void check_http_server() {}

struct HttpServer::Impl {
  serve::Service& service;
  Options options;
  httplib::Server server;
  int port = 0;
  std::atomic<int> replies = 0;

  Impl(serve::Service& of, Options with) : service(of), options(std::move(with)) {
    set_limits();
    add_routes();
    const bool any = options.port == 0;
    port = any                                               ? server.bind_to_any_port(options.host)
           : server.bind_to_port(options.host, options.port) ? options.port
                                                             : -1;
    if (port < 0)
      fail("serve",
           {.argument = "--host " + options.host + " --port " + std::to_string(options.port),
            .expected = "an address of this machine with a free port",
            .found = "one that cannot be listened on"});
  }

  void set_limits() {
    server.new_task_queue = [count = options.connections] {
      return new httplib::ThreadPool(static_cast<size_t>(count));
    };
    server.set_payload_max_length(static_cast<size_t>(options.body_bytes));
    server.set_read_timeout(read_timeout);
    server.set_write_timeout(write_timeout);
    server.set_tcp_nodelay(true);
    // Not the library's SO_REUSEPORT, with which two servers would share a port and its clients.
    server.set_socket_options([](socket_t socket) {
      const int on = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    server.set_pre_routing_handler([this](const Request& request, Response& response) {
      return check_head(request, response);
    });
    server.set_error_handler([](const Request& request, Response& response) {
      if (response.has_header("Content-Type")) return;  // it has an answer
      const char* reason = response.status == 404   ? "no such path: "
                           : response.status == 413 ? "the body is too large: "
                                                    : "the request cannot be read: ";
      refuse(response, RequestError(response.status, reason + visible_path(request)));
    });
  }

  static std::string visible_path(const Request& request) {
    return request.method.substr(0, 16) + " " + serve::shown_utf8(request.path.substr(0, 200));
  }

  // Refuses a request before its body is read.
  httplib::Server::HandlerResponse check_head(const Request& request, Response& response) const {
    const std::optional<RequestError> fault = fault_of_head(request);
    if (!fault) return httplib::Server::HandlerResponse::Unhandled;
    refuse_and_close(response, *fault);
    return httplib::Server::HandlerResponse::Handled;
  }

  std::optional<RequestError> fault_of_head(const Request& request) const {
    if (!options.api_key.empty() && request.path != "/health" &&
        !are_equal(request.get_header_value("Authorization"), "Bearer " + options.api_key))
      return RequestError(401, "expected the server's API key as a bearer token", "",
                          "invalid_api_key");
    if (auto fault = fault_of_length(request)) return fault;
    if (request.has_header("Content-Encoding"))
      return RequestError(415, "expected a body that is not compressed");
    if (request.is_multipart_form_data())
      return RequestError(415, "expected a body of JSON, found parts of a form");
    return {};
  }

  // A route whose answer is a text that `answer` returns at once.
  template <class F>
  static httplib::Server::Handler text_route(F answer) {
    return [answer](const Request& request, Response& response) {
      try {
        response.set_content(answer(request), json_type);
      } catch (const RequestError& error) {
        refuse(response, error);
      }
    };
  }

  // Adds a path that calls answer(body, request, response). The library would read a body itself,
  // but takes no more than 8 KiB of one that is called a form, as curl's -d calls it.
  template <class F>
  void add_post(const char* path, F answer) {
    server.Post(path, [answer](const Request& request, Response& response,
                               const httplib::ContentReader& read) {
      std::string body;
      const auto append = [&body](const char* bytes, size_t size) {
        body.append(bytes, size);
        return true;
      };
      if (!read(append)) return;  // the library has set the status
      try {
        answer(body, request, response);
      } catch (const RequestError& error) {
        refuse(response, error);
      }
    });
  }

  void add_routes() {
    server.Get("/health", text_route([this](const Request&) { return service.health(); }));
    server.Get("/v1/models", text_route([this](const Request&) { return service.models(); }));
    server.Get("/v1/models/(.+)", text_route([this](const Request& request) {
                 return service.model(request.matches[1].str());
               }));
    server.Get("/tokenizer_info",
               text_route([this](const Request&) { return service.tokenizer_info(); }));
    add_post("/tokenize", [this](const std::string& body, const Request&, Response& response) {
      response.set_content(service.tokenize(body), json_type);
    });
    add_post("/detokenize", [this](const std::string& body, const Request&, Response& response) {
      response.set_content(service.detokenize(body), json_type);
    });
    add_post("/v1/completions",
             [this](const std::string& body, const Request& request, Response& response) {
               write(service.complete(body), request, response);
             });
    add_post("/v1/chat/completions",
             [this](const std::string& body, const Request& request, Response& response) {
               write(service.chat(body), request, response);
             });
  }

  // Writes a reply while it is generated. In one call of the provider: between calls the library
  // would end it when the server stops.
  void write(const std::shared_ptr<serve::Reply>& reply, const Request& request,
             Response& response) {
    response.set_header("Cache-Control", "no-store");
    const auto counted = std::make_shared<Counted>(replies);
    const auto write_all = [reply, counted](httplib::DataSink& sink) {
      const bool is_complete = reply->write_to(
          {.write = [&](std::string_view text) { return sink.write(text.data(), text.size()); },
           .is_there = [&] { return sink.is_writable(); }});
      if (is_complete) sink.done();
      return is_complete;
    };
    if (request.version == "HTTP/1.0") {  // without chunks the end of the connection ends the body
      response.set_content_provider(
          reply->content_type(),
          [write_all](size_t, httplib::DataSink& sink) { return write_all(sink); });
    } else {
      response.set_chunked_content_provider(
          reply->content_type(),
          [write_all](size_t, httplib::DataSink& sink) { return write_all(sink); });
    }
  }
};

HttpServer::HttpServer(serve::Service& service, const Options& options)
    : impl_(std::make_unique<Impl>(service, options)) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }

void HttpServer::run() { impl_->server.listen_after_bind(); }

void HttpServer::stop() {
  constexpr std::chrono::milliseconds pause{20};
  impl_->service.drain();
  while (impl_->replies > 0) std::this_thread::sleep_for(pause);
  impl_->server.stop();
}

}  // namespace binade::cli

#else

namespace binade::cli {

void check_http_server() {
  fail("serve",
       {.argument = "this build",
        .expected = "an HTTP library",
        .found = "none",
        .hint = "install cpp-httplib (Debian package libcpp-httplib-dev) and build again"});
}

struct HttpServer::Impl {};

HttpServer::HttpServer(serve::Service&, const Options&) { check_http_server(); }
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
void HttpServer::run() {}
void HttpServer::stop() {}

}  // namespace binade::cli

#endif
