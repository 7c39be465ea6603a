#pragma once

#include <utility>
#include <vector>

#include "binade/backend/audit/auditor.h"
#include "binade/backend/backend.h"
#include "binade/backend/transfer.h"
#include "binade/base/random.h"

// What the tests of audits share.
namespace binade::backend::audit_test {

// Normally distributed numbers of any floating type.
inline Tensor noise(const Shape& shape, DType dtype, uint64_t stream,
                    Device device = Device::cpu()) {
  const Tensor wide = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < wide.numel(); ++i)
    wide.mutable_data<float>()[i] = random::normal(3, stream, static_cast<uint64_t>(i));
  const Tensor x = Tensor::empty(shape, dtype);
  of(Device::cpu()).elementwise.copy(wide, x);
  return device.is_cpu() ? x : transfer(x, device);
}

struct Audited {
  std::vector<AuditMismatch> found = {};
  AuditCounts counts = {};
};

// Audits the kernels called by `work` as one step, and returns what it finds.
template <class Work>
Audited audit_step(Device device, AuditOptions options, int64_t step, Work work) {
  Audited result;
  options.on_mismatch = [&](const AuditMismatch& one) { result.found.push_back(one); };
  Auditor auditor(device, std::move(options));
  auditor.begin_step(step);
  work();
  auditor.end_step();
  result.counts = auditor.counts();
  return result;
}

}  // namespace binade::backend::audit_test
