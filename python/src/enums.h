#pragma once

#include <string>

#include "binade/autograd/op.h"
#include "binade/backend/activation_function.h"
#include "binade/nn/resnet.h"
#include "binade/ops/loss/loss.h"

// Choices that Python passes by name. Unknown names fail and list the known ones.
namespace binade::python {

Activation parse_activation(const std::string& name);
Reduce parse_reduce(const std::string& name);
CastClass parse_cast_class(const std::string& name);
nn::ResNetBlock parse_resnet_block(const std::string& name);

}  // namespace binade::python
