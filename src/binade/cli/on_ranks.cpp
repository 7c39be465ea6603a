#include "binade/cli/on_ranks.h"

#include <CLI/CLI.hpp>
#include <exception>

#include "binade/amp/diverged_error.h"
#include "binade/cli/commands.h"
#include "binade/train/audit/step_audit.h"

namespace binade::cli {

void on_ranks(const std::function<void(const std::shared_ptr<ranks::Communicator>&)>& work) {
  const std::shared_ptr<ranks::Communicator> ranks = ranks::init();
  if (ranks->size() == 1) return work(ranks);
  try {
    work(ranks);
  } catch (const CLI::RuntimeError&) {  // interrupted or failed: every rank has ended as it should
    ranks->finalize();
    throw;
  } catch (const std::exception& error) {
    const bool diverged = dynamic_cast<const amp::DivergedError*>(&error) != nullptr;
    const bool audit = dynamic_cast<const train::AuditError*>(&error) != nullptr;
    // What ails all ranks is reported once, by rank 0, which then ends the others. On a machine
    // with more ranks than cores it may be seconds behind.
    if (ranks->rank() != 0) ranks->await_end(3);
    ranks->abort(error.what(), audit ? different : diverged ? failed_training : bad_input);
  }
  ranks->finalize();
}

}  // namespace binade::cli
