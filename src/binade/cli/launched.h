#pragma once

// What `binade launch` and the ranks that it starts tell each other, by environment variables.
namespace binade::cli {

// The process id of the launcher.
inline constexpr const char* launcher_variable = "BINADE_LAUNCHER";
// A file that the launcher reads the run's exit code from.
inline constexpr const char* exit_code_variable = "BINADE_EXIT_CODE_FILE";

// In a rank of `binade launch`: ends this process with the one that started it, at once. Does
// nothing elsewhere.
void end_with_launcher();

// Whether this process is a rank of `binade launch`.
bool is_launched();

// Hands the exit code of the run to the launcher, which mpirun may not pass on. Returns false if
// there is none, or if it cannot be told: the process then ends with that code itself.
bool tell_launcher(int exit_code);

}  // namespace binade::cli
