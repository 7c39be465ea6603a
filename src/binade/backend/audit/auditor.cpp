#include "binade/backend/audit/auditor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "binade/backend/audit/session.h"
#include "binade/backend/capabilities.h"
#include "binade/backend/transfer.h"
#include "binade/base/error.h"
#include "binade/base/random.h"

namespace binade::backend {
namespace {

AuditSession* active_audit = nullptr;

constexpr uint64_t of_exchanges = uint64_t{1} << 23;  // the other numbers are those of kernels

// The random numbers of one kernel of a step on one rank, or of one exchange of a pair of ranks.
class Draws {
 public:
  Draws(const AuditSession& session, uint64_t number, int64_t owner)
      : seed_(session.options.seed),
        stream_(random::stream_id(random::Domain::audit,
                                  static_cast<uint64_t>(session.step) << 24 | number)),
        index_(static_cast<uint64_t>(owner) << 40) {}

  uint32_t next() { return random::bits(seed_, stream_, index_++); }

 private:
  uint64_t seed_, stream_, index_;
};

// Each piece with a probability of `share`, by the distances between those that are chosen.
std::vector<int64_t> choose(Draws& draws, int64_t pieces, double share) {
  std::vector<int64_t> chosen;
  const double rate = std::log1p(-std::min(share, 1.0));  // -inf: each piece
  for (int64_t at = 0;; ++at) {
    const double skipped = std::floor(std::log((draws.next() + 0.5) * 0x1p-32) / rate);
    if (skipped >= static_cast<double>(pieces - at)) return chosen;
    at += static_cast<int64_t>(skipped);
    if (at >= pieces) return chosen;
    chosen.push_back(at);
  }
}

double value_of(DType dtype, uint64_t bits) {
  const auto code = static_cast<uint32_t>(bits);
  switch (dtype) {
    case DType::f64:
      return __builtin_bit_cast(double, bits);
    case DType::f32:
      return formats::float_from_bits(code);
    case DType::f16:
      return formats::decode<formats::spec::f16>(code);
    case DType::bf16:
      return formats::decode<formats::spec::bf16>(code);
    case DType::e4m3:
      return formats::decode<formats::spec::e4m3>(code);
    case DType::e5m2:
      return formats::decode<formats::spec::e5m2>(code);
    default:
      return static_cast<double>(bits);
  }
}

std::unique_ptr<AuditSession> new_session(Device device, AuditOptions options) {
  if (active_audit != nullptr)
    fail("audit", {.argument = "auditor", .expected = "one at a time", .found = "another one"});
  auto session = std::make_unique<AuditSession>();
  session->device = device;
  session->options = std::move(options);
  session->plain = session->audited = of(device);
  return session;
}

}  // namespace

AuditSession& audit_session() { return *active_audit; }

Auditor::Auditor(Device device, AuditOptions options)
    : session_(new_session(device, std::move(options))), scope_(active_audit, session_.get()) {
  MatmulKernels& matmuls = session_->audited.matmul;
  matmuls.matmul = audit::matmul;
  if (!capabilities(device).is_host_readable) {
    matmuls.matmul = audit::modelled_matmul;
    matmuls.matmul_swiglu = audit::modelled_matmul_swiglu;
  }
  session_->audited.norm.forward = audit::norm_forward;
  session_->audited.norm.backward = audit::norm_backward;
  session_->audited.optimizer.update = audit::update;
}

Auditor::~Auditor() = default;

void Auditor::begin_step(int64_t step) {
  session_->step = step;
  session_->next_op = 0;
  session_->is_running = true;
}

void Auditor::end_step() { session_->is_running = false; }

const AuditCounts& Auditor::counts() const { return session_->counts; }

void flip_bit(const AuditedResult& result, int64_t byte, int bit) {
  TensorView at = result.view;
  at.data = at.as<std::byte>() + byte;
  at.dtype = DType::u8;
  at.shape = {1};
  at.strides = {1};
  const auto mask = static_cast<uint8_t>(1 << bit);
  if (capabilities(result.device).is_host_readable) {
    *at.as<uint8_t>() ^= mask;
    return;
  }
  const ElementwiseKernels& kernels = of(result.device).elementwise;
  const Tensor there = Tensor::empty(at.shape, DType::u8, result.device);
  kernels.copy(at, there);
  const Tensor here = transfer(there, Device::cpu());
  *here.mutable_data<uint8_t>() ^= mask;
  kernels.copy(transfer(here, result.device), at);
}

const Backend* audited(Device device) {
  const bool is_active = active_audit != nullptr && device == active_audit->device;
  return is_active ? &active_audit->audited : nullptr;
}

namespace audit {

bool has_session() { return active_audit != nullptr; }

bool is_on() {
  return active_audit->is_running && std::this_thread::get_id() == active_audit->thread;
}

namespace {

struct Rows {
  int64_t count, width, row_stride, stride;
};

Rows rows_of(const TensorView& view) {
  if (view.rank() == 0) return {1, 1, 0, 0};
  if (view.rank() == 1) return {1, view.shape[0], 0, view.strides[0]};
  return {view.shape[0], view.shape[1], view.strides[0], view.strides[1]};
}

const std::byte* element(const TensorView& view, const Rows& rows, int64_t row, int64_t column) {
  const int64_t at = row * rows.row_stride + column * rows.stride;
  return view.as<const std::byte>() + at * static_cast<int64_t>(size_of(view.dtype));
}

bool is_on_host() { return capabilities(active_audit->device).is_host_readable; }

Copy dense_like(const TensorView& part) {
  const memory::CategoryGuard category(memory::Category::workspace);
  Copy copy;
  if (!part.present) return copy;
  copy.tensor = Tensor::empty(part.shape, part.dtype, active_audit->device);
  copy.view = copy.tensor;
  return copy;
}

}  // namespace

Copy zeros_like(const TensorView& part) {
  Copy copy = dense_like(part);
  if (!part.present) return copy;
  if (is_on_host()) {
    std::memset(copy.view.data, 0, static_cast<size_t>(copy.tensor.bytes()));
  } else {
    active_audit->plain.elementwise.fill(copy.view, 0);
  }
  return copy;
}

Copy copy_of(const TensorView& part) {
  Copy copy = dense_like(part);
  if (!part.present) return copy;
  if (!is_on_host()) {
    active_audit->plain.elementwise.copy(part, copy.view);
    return copy;
  }
  const Rows rows = rows_of(part);
  const size_t size = size_of(part.dtype);
  auto* to = copy.view.as<std::byte>();
  for (int64_t i = 0; i < rows.count; ++i) {
    if (rows.stride == 1) {
      std::memcpy(to, element(part, rows, i, 0), static_cast<size_t>(rows.width) * size);
      to += static_cast<size_t>(rows.width) * size;
      continue;
    }
    for (int64_t j = 0; j < rows.width; ++j, to += size)
      std::memcpy(to, element(part, rows, i, j), size);
  }
  return copy;
}

Copy on_host(const TensorView& part) {
  Copy copy = copy_of(part);
  if (!part.present || is_on_host()) return copy;
  copy.tensor = transfer(copy.tensor, Device::cpu());
  copy.view = copy.tensor;
  return copy;
}

TensorView slice(TensorView view, int axis, int64_t begin, int64_t count) {
  if (!view.present) return view;
  view.data =
      view.as<std::byte>() + begin * view.strides[axis] * static_cast<int64_t>(size_of(view.dtype));
  view.shape[axis] = count;
  return view;
}

TensorView flat_slice(const TensorView& view, int64_t begin, int64_t count) {
  if (!view.present) return view;
  TensorView part = view;
  part.data = view.as<std::byte>() + begin * static_cast<int64_t>(size_of(view.dtype));
  part.shape = {count};
  part.strides = dense_strides(part.shape);
  return part;
}

AuditedKernel::AuditedKernel(const char* kernel, int64_t pieces)
    : kernel_(kernel), op_(active_audit->next_op++) {
  Draws draws(*active_audit, static_cast<uint64_t>(op_) % of_exchanges, active_audit->options.rank);
  chosen_ = choose(draws, pieces, active_audit->options.share);
  core_choice_ = draws.next();
  AuditCounts& counts = active_audit->counts;
  ++counts.kernels;
  counts.pieces += pieces;
  counts.audited += std::ssize(chosen_);
}

void AuditedKernel::written(const TensorView& result) const {
  if (active_audit->options.inject && result.present)
    active_audit->options.inject({kernel_, op_, active_audit->device, result});
}

void AuditedKernel::again(const std::function<void()>& work) {
  if (!is_on_host()) return work();  // on some multiprocessor
  core_ = active_audit->other.run(core_choice_++, work);
}

void AuditedKernel::compare(const Compared& piece) const {
  if (is_on_host() || !piece.found.present) return audit::compare(source(), piece);
  const Copy found = on_host(piece.found), expected = on_host(piece.expected);
  audit::compare(source(),
                 {piece.tensor, found.view, expected.view, piece.first, piece.row_stride});
}

std::vector<int64_t> choose_of_exchange(int64_t number, int64_t pair, int64_t pieces) {
  Draws draws(*active_audit, of_exchanges | static_cast<uint64_t>(number) % of_exchanges, pair);
  return choose(draws, pieces, active_audit->options.share);
}

void compare(const Source& source, const Compared& piece) {
  if (!piece.found.present) return;
  const Rows found = rows_of(piece.found), expected = rows_of(piece.expected);
  const size_t size = size_of(piece.found.dtype);
  AuditMismatch mismatch{
      .kernel = source.kernel, .tensor = piece.tensor, .op = source.op, .core = source.core};
  for (int64_t i = 0; i < found.count; ++i) {
    for (int64_t j = 0; j < found.width; ++j) {
      const std::byte* const x = element(piece.found, found, i, j);
      const std::byte* const y = element(piece.expected, expected, i, j);
      if (std::memcmp(x, y, size) == 0 || mismatch.different++ > 0) continue;
      std::memcpy(&mismatch.found_bits, x, size);
      std::memcpy(&mismatch.expected_bits, y, size);
      mismatch.index = piece.first + i * piece.row_stride + j;
    }
  }
  if (mismatch.different == 0) return;
  mismatch.found = value_of(piece.found.dtype, mismatch.found_bits);
  mismatch.expected = value_of(piece.found.dtype, mismatch.expected_bits);
  active_audit->options.on_mismatch(mismatch);
}

}  // namespace audit
}  // namespace binade::backend
