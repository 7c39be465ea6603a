#pragma once

// Generating texts in C++ programs: one, or many at once, each with the log-probabilities of its
// tokens. Beside binade/binade.h, which programs without it compile sooner.

#include "binade/train/streams.h"
