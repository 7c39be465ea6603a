#include "binade/ranks/partition.h"

#include <algorithm>
#include <string>

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
                     int64_t bucket)
    : Partition(sizes_of(parameters), ranks, indices_of(forward, parameters), bucket) {}

Partition::Partition(std::span<const int64_t> sizes, int ranks, std::span<const size_t> forward,
                     int64_t bucket)
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
  for (size_t place = sizes.size(); place-- > 0;) {
    const size_t i = forward.empty() ? place : forward[place];
    if (buckets_.empty() || buckets_.back().size >= bucket) buckets_.emplace_back();
    Bucket& last = buckets_.back();
    places_[i] = {buckets_.size() - 1, last.size, sizes[i]};
    last.parameters.push_back(i);
    last.starts.push_back(last.size);
    last.size += sizes[i];
  }
  for (Bucket& one : buckets_) {
    one.bounds.push_back(0);
    for (int64_t r = 1; r < ranks; ++r) {
      // Without the overflow of size * r.
      const int64_t even = one.size / ranks * r + one.size % ranks * r / ranks;
      one.bounds.push_back(next_chunk(one, even));
    }
    one.bounds.push_back(one.size);
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
