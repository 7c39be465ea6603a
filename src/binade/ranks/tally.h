#pragma once

#include <memory>
#include <vector>

#include "binade/ranks/communicator.h"
#include "binade/ranks/partition.h"

namespace binade::ranks {

// The numbers of a step that ranks agree on before the update, on the parameters' device: those
// that one rank has, or those of all.
struct StepNumbers {
  Tensor norm_parts;  // f64: squared sums of the gradient elements that it owns
  Tensor found_inf;   // f32 [1]: 1 if one of these is non-finite
  Tensor first_bad;   // i32 [1]: smallest index of such a parameter; undefined: not asked
  // Scalars of its micro-batches, as many of each: its loss, and others behind it.
  std::vector<Tensor> losses;
  // f64, of delayed scales: amaxes of this step, their non-finite ones, and those of weights, which
  // every rank has alike.
  Tensor maxima, sums, most;
};

// Puts the numbers of all ranks together by one all-gather and kernels, in an order that does not
// depend on the ranks, so that no host waits for a GPU. A rank alone has all of them already.
class Tally {
 public:
  // `ranks` are those of the device; `parameters` is the partition's number of them.
  Tally(std::shared_ptr<Communicator> ranks, const Partition& partition, size_t parameters,
        int64_t micro_batches, Device device);

  // The numbers of all ranks: parts of the norm in the order of the gradients, losses in that of
  // the micro-batches. found_inf and first_bad are written where they are. Collective.
  StepNumbers exchange(const StepNumbers& own);

 private:
  // Where each part of the norm is in the gathered messages of `length` numbers, whose norm parts
  // start at `begin`.
  Tensor make_order(int64_t length, int64_t begin) const;
  int64_t parts_of(size_t parameter, int rank) const;

  std::shared_ptr<Communicator> ranks_;
  Place data_;
  const Partition& partition_;
  size_t parameters_;
  int64_t micro_batches_;
  Device device_;
  int64_t norm_parts_ = 0;  // of the rank with the most
  Tensor order_;
  int64_t order_length_ = -1;
};

}  // namespace binade::ranks
