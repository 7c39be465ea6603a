#pragma once

// LibTorch's way to write programs: with
//
//   #include <binade/torch.h>
//   namespace torch = binade::torch;
//
// torch::nn::Linear is a shared handle with ->, options are chains of setters, optimizers have
// param_groups, and functions have LibTorch's arguments. docs/from-libtorch.md says what differs.
#include "binade/binade.h"
#include "binade/torch/containers.h"
#include "binade/torch/data.h"
#include "binade/torch/functions.h"
#include "binade/torch/modules.h"
#include "binade/torch/optim.h"
#include "binade/torch/serialize.h"
