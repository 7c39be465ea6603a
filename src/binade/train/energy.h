#pragma once

#include <functional>
#include <optional>

namespace binade::train {

// The energy that training takes per token, from a device's energy counter.
class EnergyMeter {
 public:
  // `read` returns the counter in joules, or nothing if the device has none. It is called at most
  // once per `interval` seconds: drivers take up to milliseconds to answer.
  explicit EnergyMeter(std::function<std::optional<double>()> read, double interval = 1);

  // Counts tokens that were processed by the time `now`, in seconds of any clock.
  void add(double tokens, double now);
  // Joules per token since the first call of add(); none before the second reading.
  std::optional<double> joules_per_token() const { return joules_per_token_; }

 private:
  std::function<std::optional<double>()> read_;
  double interval_;
  std::optional<double> first_;  // reading of the counter
  double tokens_ = 0;            // since the first reading
  double last_ = 0;              // time of the last reading
  std::optional<double> joules_per_token_;
};

}  // namespace binade::train
