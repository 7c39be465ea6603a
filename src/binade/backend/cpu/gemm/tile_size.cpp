#include <bit>
#include <cmath>

#include "binade/backend/cpu/gemm/pass.h"

namespace binade::backend::cpu {
namespace {

struct TileSize {
  int64_t rows, columns;
};

// A tile's rows of A stay in the second-level cache and meet all columns, or as many as there is
// room to keep sums of near by.
TileSize tile_for_one(const Pass& pass) {
  return {pass.kernel.a_in_l1 ? 256 : std::max<int64_t>(128, 8 * pass.kernel.mr),
          pass.keeps_sums() ? pass.kernel.columns : pass.columns.size};
}

// Several workers get several tiles each, so that a slow core, or one that others use too, holds up
// none for long. Where all of B fits into a core's second-level cache, and its panels take turns in
// the first anyway, tiles are a few rows. Otherwise they are square, which takes the least from
// afar.
TileSize tile_for_many(const Pass& pass, int64_t workers) {
  constexpr int64_t near_by = 1 << 18;  // elements
  const TileSize most = tile_for_one(pass);
  const int64_t rows = pass.rows.size, columns = pass.columns.size;
  if (columns * pass.problem.k <= near_by && pass.kernel.a_in_l1) {
    const int64_t panels = rows / (8 * workers) / pass.kernel.mr;
    return {std::clamp(panels * pass.kernel.mr, int64_t{pass.kernel.mr}, most.rows), columns};
  }
  const int64_t tiles = 4 * workers;
  const double side = std::sqrt(static_cast<double>(rows) * static_cast<double>(columns) /
                                static_cast<double>(tiles));
  // A power of two down the rows, as most numbers of workers are.
  const auto down =
      std::bit_ceil(static_cast<uint64_t>(std::ceil(static_cast<double>(rows) / side)));
  const int64_t tile_rows = std::min(divide_up(rows, static_cast<int64_t>(down)), most.rows);
  const int64_t across = divide_up(tiles, divide_up(rows, tile_rows));
  return {tile_rows, std::min(divide_up(columns, across), most.columns)};
}

// Where panels of A stay in the first-level cache, those of B of one strip, and of the next, should
// stay in the second.
int64_t strip_for(const Pass& pass) {
  const Kernel& kernel = pass.kernel;
  if (!kernel.a_in_l1) return kernel.strip;
  constexpr int64_t near_by = 256 << 10;  // bytes
  return std::clamp(near_by / (pass.kc * kernel.element_bytes()), int64_t{kernel.nr}, kernel.strip);
}

}  // namespace

void choose_tiles(Pass& pass, int64_t workers) {
  const Kernel& kernel = pass.kernel;
  const TileSize most = workers > 1 ? tile_for_many(pass, workers) : tile_for_one(pass);
  const auto even = [](int64_t size, int64_t most, int64_t unit) {
    return round_up(divide_up(size, divide_up(size, most)), unit);
  };
  pass.tile_rows = even(pass.rows.size, most.rows, kernel.mr);
  pass.tile_columns = even(pass.columns.size, most.columns, kernel.nr);
  pass.strip = std::min(pass.tile_columns, round_up(strip_for(pass), kernel.nr));
}

}  // namespace binade::backend::cpu
