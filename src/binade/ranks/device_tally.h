#pragma once

#include <memory>
#include <vector>

#include "binade/ranks/communicator.h"
#include "binade/ranks/partition.h"

namespace binade::ranks {

// What tally() exchanges of a step's numbers, for ranks whose numbers are on GPUs: one all-gather,
// put together by kernels in an order that does not depend on the ranks, so that no host waits.
class DeviceTally {
 public:
  // `ranks` are those of the device; `parameters` is the partition's number of them.
  DeviceTally(std::shared_ptr<Communicator> ranks, const Partition& partition, size_t parameters,
              int64_t micro_batches, Device device);

  // f64 vectors, unless they say otherwise.
  struct Part {
    Tensor norm_parts;           // of the gradient elements this rank owns
    Tensor found_inf;            // f32 [1]
    Tensor first_bad;            // i32 [1]; undefined: not asked for
    std::vector<Tensor> losses;  // f32 scalars of its micro-batches
    Tensor maxima, sums, most;   // as in StepPart; may be undefined
  };
  struct Whole {
    Tensor norm_parts;            // of all gradients, in their order
    Tensor found_inf, first_bad;  // [1]
    std::vector<Tensor> losses;   // f64 scalars of all micro-batches, in their order
    Tensor maxima, sums, most;
  };
  // Collective.
  Whole exchange(const Part& part);

 private:
  // Where each part of the norm is in the gathered messages of `length` numbers, whose norm parts
  // start at `begin`.
  Tensor make_order(int64_t length, int64_t begin) const;

  std::shared_ptr<Communicator> ranks_;
  const Partition& partition_;
  size_t parameters_;
  int64_t micro_batches_;
  Device device_;
  int64_t norm_parts_ = 0;  // of the rank with the most
  Tensor order_;
  int64_t order_length_ = -1;
};

}  // namespace binade::ranks
