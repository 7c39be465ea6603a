#include "binade/autograd/module_path.h"

#include <utility>

#include "binade/base/execution.h"

namespace binade::autograd {
namespace {

// What repeats a forward, or continues it elsewhere, runs in the forward's module.
constinit execution::Slot<std::string> thread_path(execution::Belongs::to_work);

}  // namespace

const std::string& module_path() { return *thread_path; }

ModuleScope::ModuleScope(std::string_view name) : previous_length_(module_path().size()) {
  if (name.empty()) return;
  std::string& path = *thread_path;
  if (!path.empty()) path += '.';
  path += name;
}

ModuleScope::~ModuleScope() { thread_path->resize(previous_length_); }

ModulePathGuard::ModulePathGuard(std::string path) : scope_(*thread_path, std::move(path)) {}

}  // namespace binade::autograd
