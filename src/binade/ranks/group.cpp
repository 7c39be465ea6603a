#include "binade/ranks/group.h"

#include <algorithm>

#include "binade/base/division.h"

namespace binade::ranks {

std::vector<int64_t> Place::own_items(int64_t count) const {
  std::vector<int64_t> items;
  for (int64_t item = rank; item < count; item += size) items.push_back(item);
  return items;
}

int64_t Place::item_count(int of_rank, int64_t count) const {
  return divide_up(std::max<int64_t>(count - of_rank, 0), int64_t{size});
}

}  // namespace binade::ranks
