#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "binade/backend/capabilities.h"
#include "binade/base/error.h"
#include "binade/base/execution.h"
#include "binade/cli/command_line.h"
#include "binade/cli/commands.h"
#include "binade/cli/configuration.h"
#include "binade/cli/http_server.h"
#include "binade/cli/values.h"
#include "binade/serve/service.h"
#include "binade/train/config/choices.h"

namespace binade::cli {
namespace {

constexpr int64_t max_served_streams = 256, max_queue = 512;
constexpr int64_t max_port = 65535;
constexpr int64_t max_time = 86'400;
constexpr int64_t max_body_mib = 64;
// Connections beside those of waiting texts: for other requests, and to refuse what is too much.
constexpr int64_t spare_connections = 16;

struct ServeArguments {
  std::string folder;
  HttpServer::Options http;
  serve::Service::Options service;
  int64_t streams = 0;  // 0: as the device suits
  int64_t time = 600, body_mib = 4;
  std::shared_ptr<ModelArguments> model = std::make_shared<ModelArguments>();
};

// The HTTP library waits by select(), which knows no file past this number.
void limit_files() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, FD_SETSIZE);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t default_streams(const ModelArguments& model) {
  constexpr int64_t many = 16;
  const bool is_invariant = backend::capabilities(model.where()).is_batch_invariant &&
                            !model.precision.depends_on_batch();
  return is_invariant ? many : 1;
}

std::string name_of(const std::filesystem::path& folder) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  const std::string name = (whole.filename().empty() ? whole.parent_path() : whole).filename();
  return serve::shown_utf8(name);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Serves until a signal asks to stop. A second one ends the program at once.
void serve_until_stopped(HttpServer& server, const sigset_t& signals) {
  std::atomic<bool> has_ended = false;
  execution::Thread listener([&] {
    server.run();
    has_ended = true;
  });
  constexpr timespec half_second{0, 500'000'000};
  int signal = -1;
  while (signal < 0 && !has_ended) signal = ::sigtimedwait(&signals, nullptr, &half_second);
  if (signal > 0) {
    fmt::print("{}: no new requests; the running answers end first\n",
               signal == SIGINT ? "SIGINT" : "SIGTERM");
    std::fflush(stdout);
    ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    server.stop();
  }
  listener.join();
  if (signal < 0) fail("serve", {.argument = "the server", .found = "ended by itself"});
}

void run(ServeArguments arguments) {
  check_http_server();
  // Before there are threads, so that this one alone receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  limit_files();

  const std::filesystem::path folder = chosen_model(arguments.folder, "serve");
  serve::Service::Options& options = arguments.service;
  options.engine.precision = arguments.model->precision;
  options.engine.streams =
      arguments.streams > 0 ? arguments.streams : default_streams(*arguments.model);
  options.time = std::chrono::seconds(arguments.time);
  if (options.name.empty()) options.name = name_of(arguments.folder);
  arguments.http.body_bytes = arguments.body_mib << 20;
  arguments.http.connections = options.engine.streams + options.engine.queue + spare_connections;
  serve::Service service(arguments.model->load(folder, "serve"), folder, options);
  HttpServer server(service, arguments.http);
  if (!is_loopback(arguments.http.host) && arguments.http.api_key.empty())
    print_warnings({"anyone who reaches " + arguments.http.host +
                    " may use this server: give --api-key, or leave --host out"});
  const bool is_v6 = arguments.http.host.find(':') != std::string::npos;
  fmt::print("{} at http://{}:{} ({} texts at once, {} may wait); Ctrl-C ends it\n", options.name,
             is_v6 ? "[" + arguments.http.host + "]" : arguments.http.host, server.port(),
             options.engine.streams, options.engine.queue);
  std::fflush(stdout);
  serve_until_stopped(server, signals);
}

// An empty value, such as that of a variable that is not set, would open the server to more.
CLI::Validator not_empty() {
  return {[](const std::string& text) -> std::string {
            return text.empty() ? "expected a value, found an empty one" : "";
          },
          ""};
}

void add_network(CLI::App& command, ServeArguments& arguments) {
  command.add_option("--host", arguments.http.host, "Address to listen on; 0.0.0.0: every network")
      ->check(not_empty())
      ->capture_default_str();
  command.add_option("--port", arguments.http.port, "Port to listen on; 0: one that is free")
      ->transform(whole_number(0, max_port))
      ->capture_default_str();
  command
      .add_option("--api-key", arguments.http.api_key,
                  "Key that clients must give as a bearer token; better in BINADE_API_KEY, since "
                  "others see command lines")
      ->check(not_empty())
      ->envname("BINADE_API_KEY");
  command
      .add_option("--name", arguments.service.name,
                  "The model's name for clients; default: that of the folder given")
      ->type_name("NAME");
}

void add_limits(CLI::App& command, ServeArguments& arguments) {
  serve::Engine::Options& engine = arguments.service.engine;
  command
      .add_option("--streams", arguments.streams,
                  "Texts generated at once; default: 16 on a CPU, 1 on a GPU")
      ->transform(whole_number(1, max_served_streams));
  command.add_option("--queue", engine.queue, "Texts that may wait; more are refused (status 503)")
      ->transform(whole_number(1, max_queue))
      ->capture_default_str();
  command.add_option("--max-texts", arguments.service.max_texts, "Texts of one request at most")
      ->transform(whole_number(1, max_queue))
      ->capture_default_str();
  command
      .add_option("--max-tokens", arguments.service.max_tokens,
                  "Tokens generated for a text at most; default: what the model's context holds")
      ->transform(whole_number(1, int64_t{1} << 30));
  command
      .add_option("--time", arguments.time,
                  "Seconds that an answer may take, waiting included; then it ends as it is")
      ->transform(whole_number(1, max_time))
      ->capture_default_str();
  command.add_option("--max-body", arguments.body_mib, "MiB of a request's body at most")
      ->transform(whole_number(1, max_body_mib))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Answer requests of OpenAI's HTTP interface with a model");
  auto arguments = std::make_shared<ServeArguments>();
  command->add_option("FOLDER", arguments->folder, "A model, a checkpoint, or the folder of a run")
      ->required();
  add_network(*command, *arguments);
  add_limits(*command, *arguments);
  command
      ->add_option_function<std::string>(
          "--chat-format",
          [arguments](const std::string& text) {
            arguments->service.chat = *train::find_named(train::chat_names, text);
          },
          "Chat in this format instead of the model's own")
      ->check(one_of({"chatml", "llama3", "gemma", "mistral"}));
  add_model_options(*command, arguments->model);
  command->callback([arguments] { run(*arguments); });
}

}  // namespace binade::cli
