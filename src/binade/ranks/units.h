#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/base/function_ref.h"
#include "binade/ranks/communicator.h"
#include "binade/ranks/partition.h"

namespace binade::ranks {

// The bytes of elements [begin, ...) of a dense tensor; null on the meta device.
std::byte* element_bytes(const Tensor& tensor, int64_t begin);

// Parameters that one collective gathers: rank by rank, the elements that each owns of one
// parameter after the other.
class GatherGroup {
 public:
  // `parameters` are those of the partition; `members` are the indices of this group's.
  GatherGroup(const Partition& partition, const std::vector<Tensor>& parameters,
              std::vector<size_t> members);

  const std::vector<size_t>& members() const { return members_; }
  const std::vector<int64_t>& counts() const { return counts_; }  // bytes of each rank
  int64_t bytes() const { return bytes_; }
  // Copies this rank's elements to `buffer`: from `shards`, by parameter, if they are defined
  // there, else from the parameters.
  void pack(int rank, const std::vector<Tensor>& shards, const Tensor& buffer) const;
  // Copies this rank's elements from the parameters to `shards`, by parameter.
  void take(int rank, const std::vector<Tensor>& shards) const;
  // Copies all ranks' elements from `buffer` to the parameters, except those of rank `but`.
  void unpack(const Tensor& buffer, std::optional<int> but = {}) const;

 private:
  const Partition& partition_;
  const std::vector<Tensor>& parameters_;
  std::vector<size_t> members_;
  std::vector<int64_t> counts_;
  int64_t bytes_ = 0;
};

// Parameters of which each rank keeps only the elements it owns (stage 3). A unit, such as a block
// of a model, is gathered before it runs, in forward and backward, and released after it; the next
// one arrives meanwhile. So two units are whole at a time. Gathering is no write: it leaves the
// parameters' versions as they are. Members are collective unless they say otherwise.
class Units {
 public:
  // `units` has the indices of each unit's parameters, in the order of a forward. Not collective.
  // The parameters are whole until shard().
  Units(std::shared_ptr<Communicator> ranks, const Partition& partition,
        const std::vector<Tensor>& parameters, const std::vector<std::vector<size_t>>& units);
  // The parameters have memory again, but no defined contents unless they were whole.
  ~Units();
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  size_t size() const { return groups_.size(); }
  bool contains(size_t parameter) const { return shards_[parameter].defined(); }
  // This rank's elements of each parameter; undefined for those in no unit.
  const std::vector<Tensor>& shards() const { return shards_; }

  // Takes this rank's elements from the parameters, which must be whole on all ranks, and releases
  // their memory. Not collective.
  void shard();
  // Whole parameters on all ranks, or on rank 0 alone, until shard() or begin_pass().
  enum class Where : uint8_t { nowhere, first_rank, all_ranks };
  void gather(Where where);
  // Calls `visitor` with the parameters of one unit after the other, whole on all ranks during the
  // call.
  void visit(FunctionRef<void(std::span<const Tensor> unit)> visitor);
  // Whether this rank has all parameters. Not collective.
  bool is_whole() const;

  // A forward over all units in their order, and perhaps a backward in the reverse order. Ranks
  // without work in it make the same calls.
  enum class Pass : uint8_t { forward, forward_and_backward };
  void begin_pass(Pass pass);
  void before_forward(size_t unit);
  void before_backward(size_t unit);
  void end_pass();

 private:
  // The units of a pass by position: 0, 1, ..., n - 1, and n - 2, ..., 0. The last one of the
  // forward stays for the backward.
  size_t unit_at(int64_t position) const;
  void reach(int64_t position);
  void gather_unit(size_t unit, Where where);
  void start_gather(size_t unit);
  // Waits for that gather; the unit's parameters are whole then.
  void finish_gather();
  // Waits for a gather that an exception in a pass has left under way, before its buffers go.
  void abandon_gather();
  void restore(size_t unit);
  void release(size_t unit);

  std::shared_ptr<Communicator> ranks_;
  const std::vector<Tensor>& parameters_;
  std::vector<GatherGroup> groups_;
  std::vector<Tensor> shards_;
  std::vector<bool> has_memory_;  // of each unit
  Where whole_ = Where::all_ranks;
  // State of the running pass.
  int64_t position_ = -1, last_ = -1;
  size_t arriving_ = 0;  // unit
  Tensor sent_, received_;
  Communicator::Pending pending_;
};

}  // namespace binade::ranks
