#pragma once

#include <string>
#include <vector>

#include "binade/lab/doctor.h"

// Short runs with a doctor, of models that a fault was planted in.
namespace binade::lab {

// The parameter of that name.
Tensor parameter(train::Trainer& trainer, const std::string& path);
// Sets one element of a parameter.
void plant(train::Trainer& trainer, const std::string& path, int64_t at, double value);
// A giant weight on a hidden unit that is always off: the model computes the same function, but in
// FP8 all other weights of the layer underflow.
void plant_outlier(train::Trainer& trainer, int block = 1);
// Runs steps as the training loop does, with a doctor. Returns the losses.
std::vector<double> take_steps(train::Trainer& trainer, Doctor& doctor, const data::Tokens& tokens,
                               int steps, std::vector<std::string>* notes = nullptr);

}  // namespace binade::lab
