#pragma once

// Any tensor of any step of a recorded run, in C++ programs, and runs that branch off from one.
// Beside binade/binade.h, which programs without it compile sooner.

#include "binade/lab/replay/at.h"
