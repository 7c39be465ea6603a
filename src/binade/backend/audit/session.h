#pragma once

#include <span>
#include <thread>
#include <vector>

#include "binade/backend/audit/auditor.h"
#include "binade/backend/audit/other_core.h"
#include "binade/backend/backend.h"

// What the audited kernels share.
namespace binade::backend {

struct AuditSession {
  Device device;
  AuditOptions options;
  Backend plain;    // the device's kernels
  Backend audited;  // the same, audited
  std::thread::id thread = std::this_thread::get_id();
  bool is_running = false;
  int64_t step = 0, next_op = 0;
  AuditCounts counts = {};
  OtherCore other = {};
};

// The session that kernels of this device are audited in.
AuditSession& audit_session();

namespace audit {

// Whether there is a session.
bool has_session();
// Whether this call is audited: within a step, on its thread.
bool is_on();

// Memory of its own for a part of a tensor, on its device.
struct Copy {
  TensorView view = {};  // dense; absent if the tensor is
  Tensor tensor = {};
};
// The elements of a view of at most two axes.
Copy copy_of(const TensorView& part);
// Zeros in place of them.
Copy zeros_like(const TensorView& part);
// A dense copy of a view of at most two axes in the host's memory.
Copy on_host(const TensorView& part);

// `count` elements (rows, of two axes) of `view` from `begin` on, along `axis`.
TensorView slice(TensorView view, int axis, int64_t begin, int64_t count);
// `count` elements of a dense tensor, with one axis.
TensorView flat_slice(const TensorView& view, int64_t begin, int64_t count);

// A part of a result and the same part computed again.
struct Compared {
  const char* tensor;
  TensorView found;
  TensorView expected;
  int64_t first;       // of its elements, among those of the result
  int64_t row_stride;  // of the result, in its row-major order
};

// What computed it.
struct Source {
  const char* kernel;
  int64_t op;
  int core;  // that computed it again; -1: unknown
};
// Reports a part of which any bit differs.
void compare(const Source& source, const Compared& piece);

// Of the pieces that one rank sends to another in an exchange, those that are sent again.
std::vector<int64_t> choose_of_exchange(int64_t number, int64_t pair, int64_t pieces);

// One kernel that is audited, and the pieces of its result that are.
class AuditedKernel {
 public:
  // Takes the next number of a kernel, and chooses among its `pieces`.
  AuditedKernel(const char* kernel, int64_t pieces);

  const std::vector<int64_t>& chosen() const { return chosen_; }
  // Lets tests change a result.
  void written(const TensorView& result) const;
  // Runs a second computation on another core.
  void again(const std::function<void()>& work);
  // Reports a piece that differs.
  void compare(const Compared& piece) const;
  Source source() const { return {kernel_, op_, core_}; }

 private:
  const char* kernel_;
  int64_t op_;
  std::vector<int64_t> chosen_;
  size_t core_choice_ = 0;
  int core_ = -1;
};

// Kernels that call those of the device and audit them.
void matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);
// Those of a GPU, by the CPU's model of tensor cores (modelled_matmul.cpp).
void modelled_matmul(TensorView a, TensorView b, TensorView y, const Epilogue& epilogue);
void modelled_matmul_swiglu(const LinearSwiGlu& args);
void norm_forward(const NormForward& args);
void norm_backward(const NormBackward& args);
void update(std::span<const UpdateItem> items, const UpdateRule& rule, UpdateControl control);

}  // namespace audit
}  // namespace binade::backend
