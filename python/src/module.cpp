#include "binade/backend/gpu.h"
#include "binade/base/parallel.h"
#include "binade/tensor/memory.h"
#include "binade/version.h"
#include "bindings.h"

namespace binade::python {
namespace {

void bind_machine(nb::module_& m) {
  m.attr("__version__") = BINADE_VERSION;
  m.def("get_num_threads", &threads, "Threads that kernels use.");
  m.def("set_num_threads", &set_threads, "count"_a,
        "Sets the threads that kernels use. Results do not depend on their number.");
  m.def(
      "memory_allocated", [](Device device) { return memory::allocated(device); },
      "device"_a = Device::cpu(), "Bytes of tensors in use.");
  m.def(
      "max_memory_allocated", [](Device device) { return memory::peak(device); },
      "device"_a = Device::cpu(), "Highest memory_allocated() since reset_peak_memory_stats().");
  m.def(
      "reset_peak_memory_stats", [](Device device) { memory::reset_peak(device); },
      "device"_a = Device::cpu());
  m.def("_cuda_devices", [] { return backend::gpus().size(); });
  m.def("_synchronize", &backend::synchronize, "device"_a, ReleaseGil());
}

}  // namespace
}  // namespace binade::python

NB_MODULE(_binade, m) {
  namespace python = binade::python;
  m.doc() = "The compiled part of the binade package.";
  // Python's garbage collector does not see cycles through C++: a program with a hook or a graph of
  // Python functions may end before they are freed, which is no fault of its own.
  nanobind::set_leak_warnings(false);
  python::bind_errors(m);
  python::bind_dtype(m);
  python::TensorClass tensor = python::bind_tensor(m);
  python::bind_machine(m);
  python::bind_dlpack(m, tensor);
  python::bind_plain_ops(m, tensor);
  python::bind_ops(m, tensor);
  python::bind_reductions(m, tensor);
  python::bind_rearrange(m, tensor);
  python::bind_create(m);
  python::bind_layer_ops(m);
  python::bind_attention(m);
  python::bind_losses(m);
  python::bind_autograd(m);
  python::bind_amp(m);
  python::bind_nn(m);
  python::bind_init(m);
  python::bind_sequence_layers(m);
  python::bind_optim(m);
  python::bind_schedules(m);
  python::bind_formats(m);
  python::bind_quantize(m);
  python::bind_train(m);
  python::bind_data(m);
  python::bind_lab(m);
  python::bind_io(m);
}
