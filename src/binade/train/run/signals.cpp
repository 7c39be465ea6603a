#include "binade/train/run/signals.h"

#include <atomic>

namespace binade::train {
namespace {

// Any thread may run a handler.
std::atomic<int> stopped_by = 0;
std::atomic<bool> stop_asked = false;
std::atomic<bool> save_requested = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_stop(int signal) {
  int none = 0;
  if (!stopped_by.compare_exchange_strong(none, signal) && signal == SIGINT) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

void on_save(int) { save_requested = true; }

}  // namespace

SignalGuard::SignalGuard() {
  stopped_by = 0;
  stop_asked = false;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, on_stop);
  handle(SIGUSR1, on_save);
  for (const int signal : {SIGPIPE, SIGXFSZ}) handle(signal, SIG_IGN);
}

void SignalGuard::handle(int signal, void (*handler)(int)) {
  struct sigaction action = {}, previous = {};
  ::sigaction(signal, nullptr, &previous);
  if (signal == SIGHUP && previous.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
  previous_.emplace_back(signal, previous);
}

SignalGuard::~SignalGuard() {
  save_requested = false;
  for (const auto& [signal, previous] : previous_) ::sigaction(signal, &previous, nullptr);
}

int SignalGuard::stop_signal() const { return stopped_by; }

bool SignalGuard::stop_requested() const { return stop_asked || stopped_by != 0; }

bool SignalGuard::take_save_request() { return save_requested.exchange(false); }

void keep_save_requests() { ::signal(SIGUSR1, on_save); }

void request_stop() { stop_asked = true; }

}  // namespace binade::train
