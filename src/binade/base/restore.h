#pragma once

#include <utility>

namespace binade {

// For its lifetime, gives a variable another value; then restores the previous one. Scope guards
// over thread-local state are built on it and must be destroyed on the thread that created them.
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
