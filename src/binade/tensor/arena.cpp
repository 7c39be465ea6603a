#include "binade/tensor/arena.h"

#include <algorithm>
#include <iterator>

namespace binade::memory {

std::optional<size_t> Arena::take(size_t bytes, Owner owner) {
  // Adjacent places that the owner may use are one place for it: [run, end).
  size_t run = 0, end = 0;
  for (size_t i = 0; i < free_.size(); ++i) {
    const Place& place = free_[i];
    if (place.owner != nullptr && place.owner != owner) continue;
    if (end != place.offset || run == end) run = place.offset;
    end = place.offset + place.bytes;
    if (end - run < bytes) continue;
    remove(run, run + bytes, i);
    return run;
  }
  return std::nullopt;
}

// Removes [begin, end), which free places cover up to the one at index `last`.
void Arena::remove(size_t begin, size_t end, size_t last) {
  Place& rest = free_[last];
  const size_t rest_end = rest.offset + rest.bytes;
  rest.offset = end;
  rest.bytes = rest_end - end;
  const auto first = std::find_if(free_.begin(), free_.end(),
                                  [=](const Place& place) { return place.offset >= begin; });
  const auto keep = free_.begin() + static_cast<std::ptrdiff_t>(last + (rest.bytes == 0 ? 1 : 0));
  free_.erase(first, std::max(first, keep));
}

void Arena::give(size_t offset, size_t bytes, Owner owner) {
  auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                               [](const Place& place, size_t at) { return place.offset < at; });
  const bool joins_next =
      next != free_.end() && next->offset == offset + bytes && next->owner == owner;
  const auto previous = next == free_.begin() ? free_.end() : std::prev(next);
  const bool joins_previous = previous != free_.end() &&
                              previous->offset + previous->bytes == offset &&
                              previous->owner == owner;
  if (joins_previous) {
    previous->bytes += bytes + (joins_next ? next->bytes : 0);
    if (joins_next) free_.erase(next);
  } else if (joins_next) {
    next->offset = offset;
    next->bytes += bytes;
  } else {
    free_.insert(next, {offset, bytes, owner});
  }
}

void Arena::disown(Owner owner) {
  std::vector<Place> merged;
  for (Place place : free_) {
    if (place.owner == owner) place.owner = nullptr;
    if (!merged.empty() && merged.back().owner == place.owner &&
        merged.back().offset + merged.back().bytes == place.offset) {
      merged.back().bytes += place.bytes;
    } else {
      merged.push_back(place);
    }
  }
  free_ = std::move(merged);
}

size_t Arena::free_at_end() const {
  if (free_.empty()) return 0;
  const Place& last = free_.back();
  return last.owner == nullptr && last.offset + last.bytes == size_ ? last.bytes : 0;
}

void Arena::grow(size_t bytes) {
  size_ += bytes;
  give(size_ - bytes, bytes, nullptr);
}

void Arena::shrink(size_t bytes) {
  size_ -= bytes;
  free_.back().bytes -= bytes;
  if (free_.back().bytes == 0) free_.pop_back();
}

}  // namespace binade::memory
