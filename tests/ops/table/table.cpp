#include <algorithm>

#include "ops/table/description.h"

namespace binade::optable {

const std::vector<Description>& descriptions() {
  static const std::vector<Description> all = [] {
    std::vector<Description> list;
    for (const auto family :
         {arithmetic_ops, unary_ops, reduction_ops, shape_ops, rearranging_ops, index_ops,
          matmul_ops, convolution_ops, window_ops, norm_ops, softmax_ops, transformer_ops, loss_ops,
          ctc_loss_ops, margin_loss_ops, distance_ops, recurrent_ops, sampling_ops, control_ops}) {
      for (Description& description : family()) {
        // An op whose cases come from two places (pow of a number, pow of a tensor) stays one
        // entry.
        const auto same = [&](const Description& other) { return other.op == description.op; };
        if (const auto found = std::find_if(list.begin(), list.end(), same); found != list.end()) {
          found->cases.insert(found->cases.end(), description.cases.begin(),
                              description.cases.end());
        } else {
          list.push_back(std::move(description));
        }
      }
    }
    return list;
  }();
  return all;
}

const std::vector<Description>& composites() {
  static const std::vector<Description> all = [] {
    std::vector<Description> list;
    for (const auto family :
         {matmul_composites, norm_composites, transformer_composites, loss_composites}) {
      for (Description& description : family()) list.push_back(std::move(description));
    }
    return list;
  }();
  return all;
}

}  // namespace binade::optable
