#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "binade/base/restore.h"
#include "binade/tensor/tensor.h"

// Finds processors that compute wrongly: pieces of the results of kernels are computed again and
// compared. On CPUs another core does it. Results do not depend on threads, so every bit must be
// equal. Of GPUs, the CPU's model of tensor cores (formats/tensor_core) computes tiles of matmuls,
// and the GPU itself the other pieces.
namespace binade::backend {

struct Backend;
struct AuditSession;

// A piece of a result that differs from its second computation.
struct AuditMismatch {
  std::string kernel;     // "matmul", "norm", "norm gradient", "update", "exchange"
  std::string tensor;     // of its results: "y", "dx", "first"; "fold of bucket 3 from rank 1"
  int64_t op = 0;         // number of the audited kernel in its step, from 0
  int64_t index = 0;      // of the first different element, in row-major order of the result
  int64_t different = 0;  // elements of the piece
  double found = 0;       // by the kernel; of 8-bit moments, rests and exchanges, their codes
  double expected = 0;    // by the second computation
  uint64_t found_bits = 0, expected_bits = 0;
  int core = -1;  // that computed it again; -1: unknown
};

// A result that a kernel has just written, before it is compared.
struct AuditedResult {
  const char* kernel;
  int64_t op;
  Device device;
  TensorView view;
};
// Inverts a bit of a result, which may be in a GPU's memory.
void flip_bit(const AuditedResult& result, int64_t byte, int bit);

struct AuditOptions {
  double share = 0;   // of the pieces, 0 to 1
  uint64_t seed = 0;  // of their choice
  int rank = 0;       // ranks choose differently
  // Called on the thread of the kernel. If it throws, the step ends there.
  std::function<void(const AuditMismatch&)> on_mismatch = {};
  // For tests: may change a result, as a fault would.
  std::function<void(const AuditedResult&)> inject = {};
};

struct AuditCounts {
  int64_t kernels = 0;
  int64_t pieces = 0;   // of their results
  int64_t audited = 0;  // of these
  int64_t rounded = 0;  // of these: within rounding of the model, and equal in a second run
};

// For its lifetime, of() returns a table whose matmuls, norms and elementwise optimizer updates are
// audited between begin_step() and end_step(), on the thread that calls them. Only one may exist.
// A GPU that is audited captures no graphs, and waits for the host where a piece was chosen.
//
// Pieces are tiles of up to 64 x 64 elements of a matmul's result, 16 rows of a norm's result or of
// its input's gradient, 2048 elements of an update, and 8 KiB of what a rank gets from another
// (exchange.h). The choice is a function of seed, rank, step and number of the kernel. Not audited:
// sums over rows in the gradients of norms, matmuls whose operands have scales finer than a tensor,
// updates with stochastic rounding, and other kernels; on GPUs also matmuls in f64, with quantized
// results, and those within which the gradient of an activation or a loss is computed.
//
// A tile of a GPU's matmul has the model's bits if the kernel adds in ascending order of k. Where
// it differs by no more than another order explains (split k; f32 without tensor cores; the GPU's
// own exponentials in an activation), the whole matmul runs again, and must give the bits of the
// first run: such tiles count as `rounded`.
class [[nodiscard]] Auditor {
 public:
  Auditor(Device device, AuditOptions options);
  ~Auditor();
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  void begin_step(int64_t step);
  void end_step();
  const AuditCounts& counts() const;

 private:
  std::unique_ptr<AuditSession> session_;
  Restore<AuditSession*> scope_;
};

// The auditing table if `device` is being audited, else null.
const Backend* audited(Device device);

}  // namespace binade::backend
