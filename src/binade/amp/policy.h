#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "binade/autograd/op.h"

// The precision of each op under autocast. The defaults are the classes in tensor/ops.def, which
// follow PyTorch's CUDA lists on every device, the CPU included; a policy overrides them by op, by
// module path, or both.
namespace binade::amp {

class Policy {
 public:
  // The classes of PyTorch's autocast on the CPU, which lowers the same matmuls and convolutions
  // but leaves most other ops in the type of their inputs: norms, softmax, sums and pointwise
  // functions of bf16 stay bf16. For runs that must follow a PyTorch run on a CPU:
  //   amp::Autocast cast(DType::bf16, {.policy = amp::Policy::torch_cpu()});
  static std::shared_ptr<const Policy> torch_cpu();

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
