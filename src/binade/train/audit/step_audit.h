#pragma once

#include <functional>
#include <string>

#include "binade/backend/audit/auditor.h"
#include "binade/base/error.h"
#include "binade/train/config/config.h"

namespace binade::train {

// A piece of a step's work that gave other bits when it was computed again, and where.
struct AuditFinding {
  int64_t step = 0;    // counted from 1
  int64_t micro = -1;  // micro-batch; -1: none, as in updates
  int rank = 0;
  std::string device;
  std::string module;  // whose forward or backward it was; empty: none
  backend::AuditMismatch mismatch;
};
std::string to_text(const AuditFinding& finding);
// A line of audit.jsonl.
std::string to_json(const AuditFinding& finding);

// Ends a step in which a finding was made.
class AuditError : public Error {
 public:
  using Error::Error;
};

// Audits the steps of a run by config.run.audit, the share of their work that is computed twice.
// BINADE_INJECT_FAULT=STEP:KERNEL:ELEMENT:BIT changes one bit of a result, to try an audit out:
// the element, counted over the results of that audited kernel of the step.
class StepAudit {
 public:
  StepAudit(const Config& config, Device device, int rank);

  // For its lifetime, the work of this thread belongs to a step.
  class [[nodiscard]] Scope {
   public:
    Scope(StepAudit& audit, int64_t step);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepAudit& audit_;
  };

  // Calls `receive` with each finding, before the step ends or goes on.
  void on_finding(std::function<void(const AuditFinding&)> receive) {
    receive_ = std::move(receive);
  }
  // For tests: see backend::AuditOptions::inject.
  void inject(std::function<void(const backend::AuditedResult&)> inject) {
    inject_ = std::move(inject);
  }
  const backend::AuditCounts& counts() const { return auditor_.counts(); }
  int64_t findings() const { return findings_; }

 private:
  void note(const backend::AuditMismatch& mismatch);

  Device device_;
  int rank_;
  bool continues_;
  int64_t step_ = 0, findings_ = 0;
  std::function<void(const AuditFinding&)> receive_;
  std::function<void(const backend::AuditedResult&)> inject_;
  backend::Auditor auditor_;
};

// "audited 1,234 of 246,800 pieces of work: all equal"
std::string audit_text(const StepAudit& audit);

}  // namespace binade::train
