#pragma once

#include <map>
#include <string>
#include <string_view>

#include "binade/autograd/op.h"

// The precision of each op under autocast. The defaults are the classes in autograd/ops.def, which
// follow PyTorch's CUDA lists; a policy overrides them by op, by module path, or both.
namespace binade::amp {

class Policy {
 public:
  // Overrides the class of `op` in the module at path `module` and those below it (empty:
  // everywhere). The longest matching path wins.
  Policy& set(Op op, CastClass cast, std::string_view module = "");
  // Overrides the class of all ops in a module and those below it.
  Policy& set_module(std::string_view module, CastClass cast);

  // The class of `op` in the module at `path`.
  CastClass class_of(Op op, std::string_view path) const;

  bool empty() const { return ops_.empty() && modules_.empty(); }

 private:
  std::map<std::pair<std::string, Op>, CastClass, std::less<>> ops_;
  std::map<std::string, CastClass, std::less<>> modules_;
};

// The whole table as text or JSON, for `binade policy`.
std::string policy_text(const Policy& policy = {});
std::string policy_json(const Policy& policy = {});

}  // namespace binade::amp
