#pragma once

#include <string>
#include <vector>

#include "binade/lab/replay/recorded_run.h"
#include "binade/train/hash/reproduction.h"

// A run repeated, or audited, by its manifest.
namespace binade::lab {

// The manifest of a run's folder. Fails for a run without hashes, and for a chain that was changed.
train::Reproduction manifest_of(const std::string& run);

// What of a manifest this machine and these files do not have: sentences. Empty: the run can be
// repeated. `split` and `tokenizer` are those of the manifest's configuration, or given instead.
std::vector<std::string> obstacles(const train::Reproduction& manifest, const train::Config& config,
                                   const data::Split& split, std::string_view tokenizer);

// The configuration that repeats a manifest's run in the folder `out` and verifies it. `data`,
// `tokenizer` and `init_from` replace the manifest's paths, unless they are empty. Selects the
// CPU's kernels. Fails for obstacles, naming all.
train::Config repeating_config(const std::string& manifest, const std::string& out,
                               const std::string& data, const std::string& tokenizer,
                               const std::string& init_from = "");

// A part of a run that was replayed: from the state of one checkpoint, or the start, to the next.
struct AuditedSegment {
  int64_t from = 0, to = 0;
  int64_t compared = 0;    // hashes
  bool checked = false;    // whether any of them is of a state that was replayed
  std::string difference;  // "step 300: weights differ from metrics.jsonl"; empty: none
};

struct Audit {
  std::vector<AuditedSegment> segments;
  int64_t available = 0;  // segments of the run
  int64_t checked_steps = 0, steps = 0;
  std::vector<std::string> notes;

  bool equal() const;
};

// Replays `count` segments of a run's folder, chosen by `seed`, and compares every hash of the
// manifest and of the checkpoints on the way.
Audit audit_run(const std::string& manifest, const std::string& run, int64_t count, uint64_t seed);

std::string audit_text(const Audit& audit);
std::string audit_json(const Audit& audit);

}  // namespace binade::lab
