#include "binade/train/energy.h"

#include <utility>

namespace binade::train {

EnergyMeter::EnergyMeter(std::function<std::optional<double>()> read, double interval)
    : read_(std::move(read)), interval_(interval) {}

void EnergyMeter::add(double tokens, double now) {
  if (read_ == nullptr) return;
  if (first_) tokens_ += tokens;
  if (first_ && now - last_ < interval_) return;
  const std::optional<double> joules = read_();
  if (!joules) {
    read_ = nullptr;  // the device will not tell later either
    return;
  }
  last_ = now;
  if (!first_) {
    first_ = joules;
  } else if (tokens_ > 0) {
    joules_per_token_ = (*joules - *first_) / tokens_;
  }
}

}  // namespace binade::train
