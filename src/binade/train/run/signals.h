#pragma once

#include <csignal>
#include <utility>
#include <vector>

namespace binade::train {

// For its lifetime, signals ask a run to save its work instead of ending the process:
// - SIGINT (Ctrl-C), SIGTERM and SIGHUP ask it to stop. A further SIGINT ends the process at once;
//   further SIGTERMs and SIGHUPs do not, since terminals and schedulers send several. A SIGHUP that
//   was ignored before, by nohup, stays ignored.
// - SIGUSR1 asks for a checkpoint, also since keep_save_requests().
// - SIGPIPE and SIGXFSZ are ignored: the write that caused them fails instead.
// One at a time.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // The signal that asked to stop; 0: none.
  int stop_signal() const;
  // Whether a signal or request_stop() asked to stop.
  bool stop_requested() const;
  // Whether a checkpoint was asked for since the last call.
  bool take_save_request();

 private:
  void handle(int signal, void (*handler)(int));

  std::vector<std::pair<int, struct sigaction>> previous_;
};

// From now on SIGUSR1 does not end the process: a request that comes before there is something to
// save is answered after the first step.
void keep_save_requests();

// Ends the run in progress after its current step, as a signal does. May be called from any thread.
void request_stop();

}  // namespace binade::train
