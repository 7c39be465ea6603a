#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace binade::python {

// A guard of C++ as a context manager. It may be entered again while it is open, as PyTorch's may.
class Scope {
 public:
  // A scope that constructs Guard(arguments...) each time it is entered.
  template <class Guard, class... Arguments>
  static Scope of(Arguments... arguments) {
    return Scope([=]() -> std::shared_ptr<void> { return std::make_shared<Guard>(arguments...); });
  }

  void enter() { open_.push_back(make_()); }
  void exit() { open_.pop_back(); }

 private:
  using Make = std::function<std::shared_ptr<void>()>;
  explicit Scope(Make make) : make_(std::move(make)) {}

  Make make_;
  std::vector<std::shared_ptr<void>> open_;
};

}  // namespace binade::python
