#include "binade/autograd/module_path.h"

#include <utility>

namespace binade::autograd {
namespace {

thread_local std::string path;

}  // namespace

const std::string& module_path() { return path; }

ModuleScope::ModuleScope(std::string_view name) : previous_length_(path.size()) {
  if (name.empty()) return;
  if (!path.empty()) path += '.';
  path += name;
}

ModuleScope::~ModuleScope() { path.resize(previous_length_); }

ModulePathGuard::ModulePathGuard(std::string replacement) : scope_(path, std::move(replacement)) {}

}  // namespace binade::autograd
