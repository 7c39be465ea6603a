#include "binade/ranks/units.h"

#include <utility>

#include "binade/backend/exchange.h"
#include "binade/base/error.h"
#include "binade/tensor/pages.h"

namespace binade::ranks {
namespace {

Tensor buffer_of(int64_t bytes, Device device) {
  const memory::CategoryGuard category(memory::Category::workspace);
  return Tensor::empty({bytes}, DType::u8, device);
}

std::span<std::byte> whole_of(const Tensor& buffer) {
  return {element_bytes(buffer, 0), static_cast<size_t>(buffer.bytes())};
}

}  // namespace

std::byte* element_bytes(const Tensor& tensor, int64_t begin) {
  auto* const data = static_cast<std::byte*>(tensor.raw_data());
  return data == nullptr ? nullptr : data + begin * static_cast<int64_t>(size_of(tensor.dtype()));
}

GatherGroup::GatherGroup(const Partition& partition, const std::vector<Tensor>& parameters,
                         std::vector<size_t> members)
    : partition_(partition), parameters_(parameters), members_(std::move(members)) {
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    int64_t count = 0;
    for (const size_t i : members_)
      count +=
          partition.owned(i, rank).size() * static_cast<int64_t>(size_of(parameters[i].dtype()));
    counts_.push_back(count);
    bytes_ += count;
  }
}

void GatherGroup::pack(int rank, const std::vector<Tensor>& shards, const Tensor& buffer) const {
  int64_t at = 0;
  for (const size_t i : members_) {
    const Range owned = partition_.owned(i, rank);
    const int64_t bytes = owned.size() * static_cast<int64_t>(size_of(parameters_[i].dtype()));
    const bool has_shard = i < shards.size() && shards[i].defined();
    if (bytes > 0)
      backend::copy_bytes(
          buffer.device(), element_bytes(buffer, at),
          has_shard ? element_bytes(shards[i], 0) : element_bytes(parameters_[i], owned.begin),
          bytes);
    at += bytes;
  }
}

void GatherGroup::take(int rank, const std::vector<Tensor>& shards) const {
  for (const size_t i : members_) {
    const Range owned = partition_.owned(i, rank);
    if (owned.size() > 0)
      backend::copy_bytes(shards[i].device(), element_bytes(shards[i], 0),
                          element_bytes(parameters_[i], owned.begin), shards[i].bytes());
  }
}

void GatherGroup::unpack(const Tensor& buffer, std::optional<int> but) const {
  int64_t at = 0;
  for (int rank = 0; rank < partition_.ranks(); ++rank) {
    for (const size_t i : members_) {
      const Range owned = partition_.owned(i, rank);
      const int64_t bytes = owned.size() * static_cast<int64_t>(size_of(parameters_[i].dtype()));
      if (bytes > 0 && rank != but)
        backend::copy_bytes(buffer.device(), element_bytes(parameters_[i], owned.begin),
                            element_bytes(buffer, at), bytes);
      at += bytes;
    }
  }
}

Units::Units(std::shared_ptr<Communicator> ranks, const Partition& partition,
             const std::vector<Tensor>& parameters, const std::vector<std::vector<size_t>>& units)
    : ranks_(std::move(ranks)),
      parameters_(parameters),
      shards_(parameters.size()),
      has_memory_(units.size(), true) {
  const memory::CategoryGuard category(memory::Category::parameters);
  for (const std::vector<size_t>& unit : units) {
    for (const size_t i : unit) {
      const Tensor& parameter = parameters[i];
      if (parameter.bytes() != static_cast<int64_t>(parameter.storage()->bytes())) {
        fail("ranks", {.argument = "parameter " + describe(parameter),
                       .expected = "memory of its own, to share it among ranks",
                       .found = std::to_string(parameter.storage()->bytes()) + " bytes"});
      }
      shards_[i] = Tensor::empty({partition.owned(i, ranks_->rank()).size()}, parameter.dtype(),
                                 parameter.device());
    }
    groups_.emplace_back(partition, parameters, unit);
  }
}

Units::~Units() {
  abandon_gather();
  for (size_t unit = 0; unit < size(); ++unit) restore(unit);
}

void Units::shard() {
  if (whole_ == Where::nowhere) return;
  if (whole_ == Where::first_rank) {
    fail("ranks", {.argument = "parameters to shard",
                   .expected = "whole ones on all ranks",
                   .found = "those gathered on rank 0 alone",
                   .hint = "gather them on all ranks before they are changed"});
  }
  for (size_t unit = 0; unit < size(); ++unit) {
    groups_[unit].take(ranks_->rank(), shards_);
    release(unit);
  }
  whole_ = Where::nowhere;
}

void Units::gather(Where where) {
  if (whole_ >= where) return;
  abandon_gather();
  for (size_t unit = 0; unit < size(); ++unit) gather_unit(unit, where);
  whole_ = where;
}

void Units::gather_unit(size_t unit, Where where) {
  const GatherGroup& group = groups_[unit];
  const bool receives = where == Where::all_ranks || ranks_->rank() == 0;
  const Device device = shards_[group.members().front()].device();
  sent_ = buffer_of(group.counts()[static_cast<size_t>(ranks_->rank())], device);
  received_ = buffer_of(receives ? group.bytes() : 0, device);
  group.pack(ranks_->rank(), shards_, sent_);
  const std::string name = "weights of unit " + std::to_string(unit);
  if (where == Where::all_ranks) {
    ranks_->all_gather(name, whole_of(sent_), whole_of(received_), group.counts());
  } else {
    ranks_->gather(name, whole_of(sent_), whole_of(received_), group.counts());
  }
  if (receives) {
    restore(unit);
    group.unpack(received_);
  }
  sent_ = received_ = {};
}

void Units::visit(FunctionRef<void(std::span<const Tensor>)> visitor) {
  abandon_gather();
  const bool stay = whole_ == Where::all_ranks;
  for (size_t unit = 0; unit < size(); ++unit) {
    if (!stay) gather_unit(unit, Where::all_ranks);
    std::vector<Tensor> members;
    for (const size_t i : groups_[unit].members()) members.push_back(parameters_[i]);
    visitor(members);
    if (!stay) release(unit);
  }
  if (!stay) whole_ = Where::nowhere;
}

bool Units::is_whole() const {
  return whole_ == Where::all_ranks || (whole_ == Where::first_rank && ranks_->rank() == 0);
}

size_t Units::unit_at(int64_t position) const {
  const auto units = static_cast<int64_t>(size());
  return static_cast<size_t>(position < units ? position : 2 * (units - 1) - position);
}

void Units::begin_pass(Pass pass) {
  abandon_gather();
  for (size_t unit = 0; unit < size(); ++unit) release(unit);
  whole_ = Where::nowhere;
  position_ = -1;
  const auto units = static_cast<int64_t>(size());
  last_ = pass == Pass::forward ? units - 1 : 2 * (units - 1);
  start_gather(0);
}

void Units::before_forward(size_t unit) { reach(static_cast<int64_t>(unit)); }

void Units::before_backward(size_t unit) {
  const int64_t position = 2 * (static_cast<int64_t>(size()) - 1) - static_cast<int64_t>(unit);
  // Each result of a block calls it.
  if (position > position_) reach(position);
}

void Units::reach(int64_t position) {
  if (position == position_) return;
  if (position != position_ + 1 || position > last_) {
    fail("ranks",
         {.argument = "unit " + std::to_string(unit_at(position)),
          .expected = "a forward and a backward that run each unit once, in order",
          .found = position_ < 0 ? "it comes first"
                                 : "it comes after unit " + std::to_string(unit_at(position_)),
          .hint = "stage 2 needs no order"});
  }
  if (position_ >= 0) release(unit_at(position_));
  position_ = position;
  finish_gather();
  if (position < last_) start_gather(unit_at(position + 1));
}

void Units::end_pass() {
  if (position_ != last_) {
    fail("ranks", {.argument = "pass over the units",
                   .expected = std::to_string(last_ + 1) + " gathered in forward and backward",
                   .found = std::to_string(position_ + 1)});
  }
  release(unit_at(last_));
}

void Units::start_gather(size_t unit) {
  const GatherGroup& group = groups_[unit];
  const Device device = shards_[group.members().front()].device();
  sent_ = buffer_of(group.counts()[static_cast<size_t>(ranks_->rank())], device);
  received_ = buffer_of(group.bytes(), device);
  group.pack(ranks_->rank(), shards_, sent_);
  pending_ = ranks_->all_gather_async("weights of unit " + std::to_string(unit), whole_of(sent_),
                                      whole_of(received_), group.counts());
  arriving_ = unit;
}

void Units::abandon_gather() {
  pending_.wait();
  sent_ = received_ = {};
}

void Units::finish_gather() {
  pending_.wait();
  restore(arriving_);
  groups_[arriving_].unpack(received_);
  sent_ = received_ = {};
}

void Units::restore(size_t unit) {
  if (has_memory_[unit]) return;
  for (const size_t i : groups_[unit].members()) memory::restore_pages(*parameters_[i].storage());
  has_memory_[unit] = true;
}

void Units::release(size_t unit) {
  if (!has_memory_[unit]) return;
  for (const size_t i : groups_[unit].members()) memory::drop_pages(*parameters_[i].storage());
  has_memory_[unit] = false;
}

}  // namespace binade::ranks
