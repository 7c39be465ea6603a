#include "binade/ranks/partition.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "binade/base/error.h"

namespace binade::ranks {
namespace {

// The first chunk of the bucket that starts at `element` or after it.
int64_t next_chunk(const Bucket& bucket, int64_t element) {
  const auto after = std::upper_bound(bucket.starts.begin(), bucket.starts.end(), element);
  const int64_t start = *std::prev(after);
  const int64_t end = after == bucket.starts.end() ? bucket.size : *after;
  const int64_t chunks = (element - start + Partition::chunk - 1) / Partition::chunk;
  return std::min(start + chunks * Partition::chunk, end);
}

std::vector<int64_t> sizes_of(std::span<const Tensor> parameters) {
  std::vector<int64_t> sizes;
  for (const Tensor& parameter : parameters) sizes.push_back(parameter.numel());
  return sizes;
}

// An owner of each parameter with a cost: the most expensive first, each to the rank with the least
// to do, and the first of these.
std::vector<int> owners_of(std::span<const double> costs, int ranks) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<double> loads(static_cast<size_t>(ranks));
  std::vector<int> owners(costs.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    owners[i] = static_cast<int>(least - loads.begin());
    *least += costs[i];
  }
  return owners;
}

// Rank by rank, the parameters that each owns.
void lay_out_by_owner(Bucket& bucket, std::span<const int64_t> sizes, std::span<const int> owners,
                      int ranks) {
  std::stable_sort(bucket.parameters.begin(), bucket.parameters.end(),
                   [&](size_t a, size_t b) { return owners[a] < owners[b]; });
  bucket.starts.clear();
  bucket.bounds.assign(1, 0);
  int64_t end = 0;
  for (const size_t i : bucket.parameters) {
    while (std::cmp_less_equal(bucket.bounds.size(), owners[i])) bucket.bounds.push_back(end);
    bucket.starts.push_back(end);
    end += sizes[i];
  }
  while (std::cmp_less_equal(bucket.bounds.size(), ranks)) bucket.bounds.push_back(end);
}

// Rank by rank, about as many elements.
void share_elements(Bucket& bucket, int ranks) {
  bucket.bounds.assign(1, 0);
  for (int64_t r = 1; r < ranks; ++r) {
    // Without the overflow of size * r.
    const int64_t even = bucket.size / ranks * r + bucket.size % ranks * r / ranks;
    bucket.bounds.push_back(next_chunk(bucket, even));
  }
  bucket.bounds.push_back(bucket.size);
}

// The index of each of `some` in `all`.
std::vector<size_t> indices_of(std::span<const Tensor> some, std::span<const Tensor> all) {
  std::vector<size_t> indices;
  for (const Tensor& one : some) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Tensor& other) { return other.same_as(one); });
    if (found == all.end())
      fail("partition", {.argument = "forward",
                         .expected = "parameters of the optimizer",
                         .found = describe(one)});
    indices.push_back(static_cast<size_t>(found - all.begin()));
  }
  return indices;
}

}  // namespace

Partition::Partition(std::span<const Tensor> parameters, int ranks, std::span<const Tensor> forward,
                     int64_t bucket, std::span<const double> costs)
    : Partition(sizes_of(parameters), ranks, indices_of(forward, parameters), bucket, costs) {}

Partition::Partition(std::span<const int64_t> sizes, int ranks, std::span<const size_t> forward,
                     int64_t bucket, std::span<const double> costs)
    : ranks_(ranks), places_(sizes.size()) {
  if (ranks < 1 || bucket < 1) {
    fail("partition", {.argument = "ranks, bucket",
                       .expected = "at least 1",
                       .found = std::to_string(ranks) + ", " + std::to_string(bucket)});
  }
  if (!forward.empty() && forward.size() != sizes.size()) {
    fail("partition", {.argument = "forward",
                       .expected = std::to_string(sizes.size()) + " parameters",
                       .found = std::to_string(forward.size())});
  }
  if (!costs.empty() && costs.size() != sizes.size()) {
    fail("partition", {.argument = "costs",
                       .expected = std::to_string(sizes.size()) + " parameters",
                       .found = std::to_string(costs.size())});
  }
  // Parameters with one owner and shared ones have buckets of their own, in the order in which
  // backwards complete them.
  struct Open {
    Bucket bucket;
    bool is_shared;
    size_t last_place;  // of the parameter whose gradient comes last
  };
  std::vector<Open> open;
  size_t newest[] = {SIZE_MAX, SIZE_MAX};  // of both kinds
  for (size_t place = sizes.size(); place-- > 0;) {
    const size_t i = forward.empty() ? place : forward[place];
    const bool is_shared = costs.empty() || costs[i] == 0;
    size_t& last = newest[is_shared ? 1 : 0];
    if (last == SIZE_MAX || open[last].bucket.size >= bucket) {
      last = open.size();
      open.push_back({{}, is_shared, place});
    }
    Bucket& one = open[last].bucket;
    one.parameters.push_back(i);
    one.starts.push_back(one.size);
    one.size += sizes[i];
    open[last].last_place = place;
  }
  std::stable_sort(open.begin(), open.end(),
                   [](const Open& a, const Open& b) { return a.last_place > b.last_place; });
  const std::vector<int> owners = owners_of(costs, ranks);
  for (Open& one : open) {
    if (one.is_shared) {
      share_elements(one.bucket, ranks);
    } else {
      lay_out_by_owner(one.bucket, sizes, owners, ranks);
    }
    for (size_t k = 0; k < one.bucket.parameters.size(); ++k) {
      const size_t i = one.bucket.parameters[k];
      places_[i] = {buckets_.size(), one.bucket.starts[k], sizes[i]};
    }
    buckets_.push_back(std::move(one.bucket));
  }
}

Range Partition::owned(size_t parameter, int rank) const {
  const Place& place = places_[parameter];
  const Range mine = buckets_[place.bucket].owned(rank);
  const auto in_parameter = [&](int64_t element) {
    return std::clamp<int64_t>(element - place.start, 0, place.size);
  };
  return {in_parameter(mine.begin), in_parameter(mine.end)};
}

std::vector<optim::Part> Partition::parts(int rank) const {
  std::vector<optim::Part> result;
  if (ranks_ == 1) return result;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Range range = owned(i, rank);
    result.push_back({range.begin, range.size()});
  }
  return result;
}

int64_t Partition::owned_elements(int rank) const {
  int64_t sum = 0;
  for (const Bucket& bucket : buckets_) sum += bucket.owned(rank).size();
  return sum;
}

int64_t Partition::largest_bucket() const {
  int64_t most = 0;
  for (const Bucket& bucket : buckets_) most = std::max(most, bucket.size);
  return most;
}

}  // namespace binade::ranks
