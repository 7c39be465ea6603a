#pragma once

#include <string>
#include <string_view>

namespace binade::autograd {

// The path of the module running on this thread, "h.3.attn"; empty outside of any module.
const std::string& module_path();

// Extends the path by one name while it lives.
class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  size_t length_before_;
};

// Replaces the whole path while it lives: recompute runs under the path its forward had.
class ModulePathGuard {
 public:
  explicit ModulePathGuard(std::string path);
  ~ModulePathGuard();
  ModulePathGuard(const ModulePathGuard&) = delete;
  ModulePathGuard& operator=(const ModulePathGuard&) = delete;

 private:
  std::string previous_;
};

}  // namespace binade::autograd
