#pragma once

#include <string>

#include "binade/train/report/layer_history.h"

namespace binade::train {

// A page about the inputs, weights and gradients of linear layers over time: SQNR by format,
// exponents, zeros, values out of range and outlier channels. `facts` is HTML below the title.
std::string layer_page(const LayerHistory& history, const std::string& title,
                       const std::string& facts = {});

}  // namespace binade::train
