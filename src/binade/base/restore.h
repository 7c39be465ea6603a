#pragma once

#include <utility>

namespace binade {

// Gives a variable a value for the lifetime of this object, then restores the previous one. Scope
// guards over thread-local state are made of it; they must end on the thread they began on.
template <class T>
class [[nodiscard]] Restore {
 public:
  Restore(T& variable, T value)
      : variable_(variable), previous_(std::exchange(variable, std::move(value))) {}
  ~Restore() { variable_ = std::move(previous_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  const T& previous() const { return previous_; }

 private:
  T& variable_;
  T previous_;
};

}  // namespace binade
