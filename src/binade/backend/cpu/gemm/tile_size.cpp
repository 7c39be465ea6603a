#include <bit>
#include <cmath>

#include "binade/backend/cpu/gemm/pass.h"

namespace binade::backend::cpu {
namespace {

struct TileSize {
  int64_t rows, columns;
};

// A tile's rows of A stay in the L2 cache while all columns pass by, or as many columns as the
// cache can hold sums of.
TileSize tile_for_one(const Pass& pass) {
  return {pass.kernel.a_in_l1 ? 256 : std::max<int64_t>(128, 8 * pass.kernel.mr),
          pass.keeps_sums() ? pass.kernel.columns : pass.columns.size};
}

// Several tiles per worker, so that a slow or shared core delays the others only briefly. If all of
// B fits a core's L2 cache, and its panels pass through the L1 cache anyway (a_in_l1), tiles are a
// few rows of all columns. Otherwise they are about square, which needs the least memory traffic
// per multiply-add.
TileSize tile_for_many(const Pass& pass, int64_t workers) {
  constexpr int64_t l2_elements = 1 << 18;  // 512 KiB of bf16, 1 MiB of f32
  const TileSize most = tile_for_one(pass);
  const int64_t rows = pass.rows.size, columns = pass.columns.size;
  if (columns * pass.problem.k <= l2_elements && pass.kernel.a_in_l1) {
    const int64_t panels = rows / (8 * workers) / pass.kernel.mr;
    return {std::clamp(panels * pass.kernel.mr, int64_t{pass.kernel.mr}, most.rows), columns};
  }
  const int64_t tiles = 4 * workers;
  const double side = std::sqrt(static_cast<double>(rows) * static_cast<double>(columns) /
                                static_cast<double>(tiles));
  // A power of two of tiles along the rows, since most worker counts are powers of two.
  const auto down =
      std::bit_ceil(static_cast<uint64_t>(std::ceil(static_cast<double>(rows) / side)));
  const int64_t tile_rows = std::min(divide_up(rows, static_cast<int64_t>(down)), most.rows);
  const int64_t across = divide_up(tiles, divide_up(rows, tile_rows));
  return {tile_rows, std::min(divide_up(columns, across), most.columns)};
}

// If panels of A stay in the L1 cache, the panels of B of this strip and the next should fit the L2
// cache.
int64_t strip_for(const Pass& pass) {
  const Kernel& kernel = pass.kernel;
  if (!kernel.a_in_l1) return kernel.strip;
  constexpr int64_t strip_bytes = 256
                                  << 10;  // two strips are half of the smallest L2 targeted, 1 MiB
  return std::clamp(strip_bytes / (pass.kc * kernel.element_bytes()), int64_t{kernel.nr},
                    kernel.strip);
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
