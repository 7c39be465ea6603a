#include "binade/autograd/module_path.h"

#include <utility>

namespace binade::autograd {
namespace {

thread_local std::string path;

}  // namespace

const std::string& module_path() { return path; }

ModuleScope::ModuleScope(std::string_view name) : length_before_(path.size()) {
  if (name.empty()) return;
  if (!path.empty()) path += '.';
  path += name;
}

ModuleScope::~ModuleScope() { path.resize(length_before_); }

ModulePathGuard::ModulePathGuard(std::string replacement)
    : previous_(std::exchange(path, std::move(replacement))) {}
ModulePathGuard::~ModulePathGuard() { path = std::move(previous_); }

}  // namespace binade::autograd
