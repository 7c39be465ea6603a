#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/optim/optimizer.h"

namespace binade::ranks {

// Elements [begin, end) of a parameter or a bucket.
struct Range {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Parameters whose gradients travel together, as one run of elements: rank by rank, those that each
// owns.
struct Bucket {
  std::vector<size_t> parameters;
  std::vector<int64_t> starts;  // of each parameter in the bucket
  int64_t size = 0;
  std::vector<int64_t> bounds;  // rank r owns elements [bounds[r], bounds[r + 1])

  Range owned(int rank) const {
    return {bounds[static_cast<size_t>(rank)], bounds[static_cast<size_t>(rank) + 1]};
  }
};

// Who owns which elements of the gradients, master weights and moments. Pure arithmetic: every rank
// computes the same.
class Partition {
 public:
  // Owners change only at multiples of this many elements of a parameter, so that the parts of a
  // gradient norm (backend::norm_piece) are those of one process.
  static constexpr int64_t chunk = 16384;
  // 32 MiB of f32: large enough for a network's full speed, small beside any model worth sharding.
  static constexpr int64_t default_bucket = int64_t{8} << 20;

  // `parameters` are those of an optimizer, in its order. A bucket takes parameters from the last,
  // whose gradients a backward finishes first, until it has at least `bucket` elements. `forward`
  // lists them in the order of a forward, if the optimizer has another one. `costs` are those of
  // the updates that need a whole parameter (optim::Sharing::parameters): each has one owner, and
  // owners have about the same cost; 0, or no costs at all: ranks share its elements.
  Partition(std::span<const Tensor> parameters, int ranks, std::span<const Tensor> forward = {},
            int64_t bucket = default_bucket, std::span<const double> costs = {});
  // A partition from the parameters' sizes and, in forward order, their indices.
  Partition(std::span<const int64_t> sizes, int ranks, std::span<const size_t> forward,
            int64_t bucket, std::span<const double> costs = {});

  int ranks() const { return ranks_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  // The elements of a parameter that a rank owns: one run, perhaps empty.
  Range owned(size_t parameter, int rank) const;
  // The owned ranges of all parameters, for optim::MasterOptions. Empty for a rank alone, which
  // owns all.
  std::vector<optim::Part> parts(int rank) const;
  // Elements of all parameters that a rank owns.
  int64_t owned_elements(int rank) const;
  int64_t largest_bucket() const;

 private:
  struct Place {
    size_t bucket = 0;
    int64_t start = 0;  // in the bucket
    int64_t size = 0;
  };

  int ranks_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;  // of each parameter
};

}  // namespace binade::ranks
