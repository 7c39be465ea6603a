#include "binade/autograd/autograd_meta.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/grad_mode.h"
#include "binade/autograd/module_path.h"
#include "binade/ops/custom.h"
#include "bindings.h"
#include "enums.h"
#include "scope.h"

namespace binade::python {
namespace {

nb::tuple as_tuple(std::span<const Tensor> tensors) {
  nb::list list;
  for (const Tensor& one : tensors) list.append(nb::cast(one));
  return nb::tuple(list);
}

// An op whose forward and backward are Python functions: forward(*inputs) returns a tensor,
// backward(dy) one gradient or None per input.
Tensor custom_python(const std::string& name, const std::string& cast, nb::handle forward,
                     nb::handle backward, const std::vector<Tensor>& inputs) {
  const SharedObject forward_held(forward), backward_held(backward);
  CustomOp op{.name = name, .cast = parse_cast_class(cast)};
  op.forward = [forward_held](std::span<const Tensor> given) {
    const nb::gil_scoped_acquire gil;
    return nb::cast<Tensor>(forward_held.get()(*as_tuple(given)));
  };
  op.backward = [backward_held](const Tensor& dy, std::span<const Tensor>, const Tensor&,
                                autograd::GradSlots dx) {
    std::vector<std::optional<Tensor>> gradients;
    {
      const nb::gil_scoped_acquire gil;
      gradients = nb::cast<std::vector<std::optional<Tensor>>>(backward_held.get()(dy));
    }
    for (size_t i = 0; i < dx.size(); ++i) {
      if (dx[i].needs_grad() && gradients[i]) dx[i].add(*gradients[i]);
    }
  };
  const nb::gil_scoped_release no_gil;
  return custom(op, inputs);
}

// hook(gradient) returns None or what replaces the gradient.
void register_hook(const Tensor& tensor, nb::handle hook) {
  const SharedObject held(hook);
  autograd::on_gradient(tensor, [held](const Tensor& gradient) {
    const nb::gil_scoped_acquire gil;
    return or_undefined(nb::cast<MaybeTensor>(held.get()(gradient)));
  });
}

std::vector<MaybeTensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                              const std::vector<MaybeTensor>& seeds, bool retain_graph,
                              bool allow_unused) {
  autograd::GradOptions options;
  for (const MaybeTensor& seed : seeds) options.seeds.push_back(or_undefined(seed));
  options.retain = retain_graph ? RetainGraph::yes : RetainGraph::no;
  options.allow_unused = allow_unused;
  std::vector<MaybeTensor> gradients;
  for (const Tensor& gradient : autograd::grad(outputs, inputs, options))
    gradients.push_back(optional_of(gradient));
  return gradients;
}

}  // namespace

void bind_autograd(nb::module_& m) {
  nb::class_<Scope>(m, "Scope", "A setting of this thread, for the length of a with statement.")
      .def("__enter__", &Scope::enter)
      .def("__exit__", [](Scope& self, nb::args) {
        self.exit();
        return false;
      });
  m.def("is_grad_enabled", &autograd::grad_enabled, "Whether ops record their backward.");
  m.def("_set_grad_enabled", &autograd::set_grad_enabled, "enabled"_a);
  m.def("_no_grad", [] { return Scope::of<NoGrad>(); });
  m.def("_enable_grad", [] { return Scope::of<autograd::EnableGrad>(); });
  m.def(
      "_module_scope", [](std::string name) { return Scope::of<autograd::ModuleScope>(name); },
      "name"_a);
  m.def("_grad", &grad, "outputs"_a, "inputs"_a, "seeds"_a, "retain_graph"_a, "allow_unused"_a,
        ReleaseGil());
  m.def("_register_hook", &register_hook, "tensor"_a, "hook"_a);
  m.def("_custom", &custom_python, "name"_a, "cast"_a, "forward"_a, "backward"_a, "inputs"_a);
}

}  // namespace binade::python
