#pragma once

#include <sys/types.h>

namespace binade::process {

// The process that started another, or the one that has inherited it; 0 if it is unknown.
pid_t parent_of(pid_t pid);
// Whether a process is gone, or has ended and waits to be noticed by its parent.
bool has_ended(pid_t pid);

}  // namespace binade::process
