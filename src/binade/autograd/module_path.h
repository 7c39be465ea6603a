#pragma once

#include <string>
#include <string_view>

#include "binade/base/restore.h"

namespace binade::autograd {

// The path of the module running on this thread, "h.3.attn"; empty outside of modules.
const std::string& module_path();

// For its lifetime, extends the path by one name. Not a Restore, which would copy the path on every
// module call.
class [[nodiscard]] ModuleScope {
 public:
  explicit ModuleScope(std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  size_t previous_length_;
};

// For its lifetime, replaces the path: recompute runs under the path of the original forward.
class [[nodiscard]] ModulePathGuard {
 public:
  explicit ModulePathGuard(std::string path);

 private:
  Restore<std::string> scope_;
};

}  // namespace binade::autograd
