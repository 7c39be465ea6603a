#pragma once

namespace binade::backend::cuda {

// A kernel that computes at once what other kernels, its composite, compute one after the other.
// Callers have the composite beside the call:
//   if (kernel.supports(args)) return kernel.run(args);
//   ...
template <class Args>
struct FusedKernel {
  // Whether it takes these arguments on the active device, and is faster than the composite there.
  bool (*supports)(const Args& args);
  // Supported arguments only.
  void (*run)(const Args& args);
};

}  // namespace binade::backend::cuda
