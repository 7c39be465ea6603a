#include "binade/ranks/environment.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "binade/base/error.h"

namespace binade::ranks {
namespace {

constexpr int max_ranks = 1 << 20;

struct Names {
  const char* launcher;
  const char *rank, *size;
  const char *local_rank, *local_size;  // optional
};

constexpr Names slurm{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};
constexpr Names others[] = {{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                            {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                            {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}};

std::optional<int> number(Variables variables, const char* name, int low, int high) {
  if (name == nullptr) return {};
  const char* const text = variables(name);
  if (text == nullptr) return {};
  const std::string_view given(text);
  int value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc() || end != given.data() + given.size() || value < low || value > high) {
    fail("ranks", {.argument = name,
                   .expected = std::to_string(low) + " to " + std::to_string(high),
                   .found = "'" + std::string(given) + "'"});
  }
  return value;
}

std::optional<Environment> read(Variables variables, const Names& names) {
  const std::optional<int> size = number(variables, names.size, 1, max_ranks);
  const std::optional<int> rank =
      number(variables, names.rank, 0, size ? *size - 1 : max_ranks - 1);
  if (!rank && !size) return {};
  if (!rank || !size) {
    fail("ranks", {.argument = rank ? names.size : names.rank,
                   .expected = std::string("a number beside ") + (rank ? names.rank : names.size),
                   .found = "none",
                   .hint = "unset both to train in one process"});
  }
  Environment result{.rank = *rank, .size = *size, .launcher = names.launcher};
  result.local_size = number(variables, names.local_size, 1, *size).value_or(1);
  result.local_rank = number(variables, names.local_rank, 0, max_ranks - 1).value_or(0);
  return result;
}

std::string in_words(const Environment& environment) {
  return "rank " + std::to_string(environment.rank) + " of " + std::to_string(environment.size) +
         " by " + environment.launcher;
}

}  // namespace

Environment read_environment(Variables variables) {
  std::optional<Environment> found;
  for (const Names& names : others) {
    const std::optional<Environment> next = read(variables, names);
    if (!next) continue;
    if (found && (found->rank != next->rank || found->size != next->size)) {
      fail("ranks", {.argument = "environment",
                     .expected = "one launcher, or several that agree",
                     .found = in_words(*found) + ", " + in_words(*next),
                     .hint = "unset the variables of the launcher that is not in use"});
    }
    if (!found) found = next;
  }
  // A job's script has the first without the second, which is of srun.
  const auto is_set = [&](const char* name) { return variables(name) != nullptr; };
  if (!found && is_set(slurm.rank) && is_set(slurm.size)) {
    found = read(variables, slurm);
    if (is_set("PMIX_RANK")) found->launcher = "PMIx";
  }
  return found.value_or(Environment{});
}

Environment environment() {
  return read_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace binade::ranks
