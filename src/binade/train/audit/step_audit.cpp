#include "binade/train/audit/step_audit.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "binade/autograd/engine.h"
#include "binade/autograd/module_path.h"
#include "binade/base/json.h"
#include "binade/base/random.h"
#include "binade/base/text.h"

namespace binade::train {
namespace {

constexpr int64_t streams_of_micro = 4096;  // random::begin_micro_batch

// BINADE_INJECT_FAULT.
struct Fault {
  int64_t step, kernel, element, bit;
};

std::optional<Fault> given_fault() {
  const char* const text = std::getenv("BINADE_INJECT_FAULT");
  if (text == nullptr) return {};
  std::array<int64_t, 4> numbers{};
  const std::string_view given = text;
  const char *at = given.data(), *const end = at + given.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    const bool is_last = i + 1 == numbers.size();
    const bool ends = is_last ? next == end : next != end && *next == ':';
    if (error != std::errc() || numbers[i] < 0 || !ends)
      fail("audit", {.argument = "BINADE_INJECT_FAULT",
                     .expected = "STEP:KERNEL:ELEMENT:BIT, such as 12:5:77:20",
                     .found = json::in_quotes(std::string(given))});
    at = is_last ? next : next + 1;
  }
  return Fault{numbers[0], numbers[1], numbers[2], numbers[3]};
}

// Flips the bit, once; the element is counted over the results of the kernel.
void flip(const backend::AuditedResult& result, std::optional<Fault>& fault) {
  if (!fault || result.op != fault->kernel || !result.view.is_dense()) return;
  if (fault->element >= result.view.numel()) {
    fault->element -= result.view.numel();
    return;
  }
  const auto size = static_cast<int64_t>(size_of(result.view.dtype));
  const int64_t bit = fault->bit % (8 * size);
  backend::flip_bit(result, fault->element * size + bit / 8, static_cast<int>(bit % 8));
  fault.reset();
}

// Whose forward or backward runs.
std::string current_module() {
  const std::string& path = autograd::module_path();
  return path.empty() ? std::string(autograd::running_module()) : path;
}

bool is_exchange(const backend::AuditMismatch& mismatch) { return mismatch.kernel == "exchange"; }

std::string bits_text(uint64_t bits) { return fmt::format("{:x}", bits); }

}  // namespace

std::string to_text(const AuditFinding& finding) {
  const backend::AuditMismatch& one = finding.mismatch;
  const auto [unit, repeated] =
      is_exchange(one) ? std::pair("byte", "sent") : std::pair("element", "computed");
  return fmt::format(
      "step {}{}, rank {}, {}: {}{} (kernel {} of the step): {} {} of {} is {:g} (bits {}), "
      "but {:g} (bits {}) when it is {} again{}; {} {}{} of the piece differ{}",
      finding.step, finding.micro < 0 ? "" : fmt::format(", micro-batch {}", finding.micro),
      finding.rank, finding.device, one.kernel,
      finding.module.empty() ? "" : " in " + finding.module, one.op, unit, one.index, one.tensor,
      one.found, bits_text(one.found_bits), one.expected, bits_text(one.expected_bits), repeated,
      one.core < 0 ? "" : fmt::format(" on core {}", one.core), one.different, unit,
      one.different == 1 ? "" : "s", one.different == 1 ? "s" : "");
}

std::string to_json(const AuditFinding& finding) {
  const backend::AuditMismatch& one = finding.mismatch;
  json::Writer out;
  out.begin_object().key("step").value(finding.step);
  if (finding.micro >= 0) out.key("micro").value(finding.micro);
  out.key("rank").value(int64_t{finding.rank}).key("device").value(finding.device);
  out.key("kernel").value(one.kernel).key("op").value(one.op);
  out.key("module").value(finding.module).key("tensor").value(one.tensor);
  out.key("index").value(one.index).key("different").value(one.different);
  // Bits, since a fault may have made a number that JSON has not.
  out.key("found").value(bits_text(one.found_bits));
  out.key("expected").value(bits_text(one.expected_bits));
  return out.key("core").value(int64_t{one.core}).end_object().text();
}

StepAudit::StepAudit(const Config& config, Device device, int rank)
    : device_(device),
      rank_(rank),
      continues_(config.run.audit_continue),
      auditor_(device, {.share = config.run.audit,
                        .seed = static_cast<uint64_t>(config.train.seed),
                        .rank = rank,
                        .on_mismatch = [this](const auto& mismatch) { note(mismatch); },
                        .inject =
                            [this](const auto& result) {
                              if (inject_) inject_(result);
                            }}) {
  if (const auto given = given_fault())
    inject_ = [this, step = given->step, fault = given](const auto& result) mutable {
      if (step_ == step) flip(result, fault);
    };
}

StepAudit::Scope::Scope(StepAudit& audit, int64_t step) : audit_(audit) {
  audit.step_ = step;
  audit.auditor_.begin_step(step);
}

StepAudit::Scope::~Scope() { audit_.auditor_.end_step(); }

void StepAudit::note(const backend::AuditMismatch& mismatch) {
  ++findings_;
  const bool in_micro_batch = mismatch.kernel != "update" && !is_exchange(mismatch);
  const AuditFinding finding{
      .step = step_,
      .micro = in_micro_batch ? random::context().next_stream / streams_of_micro : -1,
      .rank = rank_,
      .device = to_string(device_),
      .module = in_micro_batch ? current_module() : "",
      .mismatch = mismatch};
  if (receive_) {
    receive_(finding);
  } else if (continues_) {
    fmt::print(stderr, "binade: audit: {}\n", to_text(finding));  // of a rank other than 0
  }
  if (continues_) return;
  throw AuditError(
      "audit",
      {.argument = to_text(finding),
       .hint = "the step was not applied as a whole, and nothing of it was saved: test this "
               "machine, then 'train --resume' from the last checkpoint"});
}

std::string audit_text(const StepAudit& audit) {
  const backend::AuditCounts& counts = audit.counts();
  const std::string done = fmt::format("audited {} of {} pieces of work", grouped(counts.audited),
                                       grouped(counts.pieces));
  const std::string rounded =
      counts.rounded == 0
          ? ""
          : fmt::format(" ({} of them in a second run of a GPU matmul)", grouped(counts.rounded));
  if (audit.findings() == 0) return done + ": all equal" + rounded;
  return fmt::format("{}: {} differ{}, see audit.jsonl", done, grouped(audit.findings()),
                     audit.findings() == 1 ? "s" : "");
}

}  // namespace binade::train
