#pragma once

#include <cstdint>

#include "binade/backend/conv.h"
#include "binade/backend/cpu/conv/window_rows.h"

// A convolution as a matmul: columns are output positions, rows are the inputs of one output,
// (channel, kd, kh, kw). Columns are made a tile at a time.
namespace binade::backend::cpu {

// Sizes of a convolution of x [n, c, d, h, w] with weight [o, c / groups, kd, kh, kw] into y.
struct ConvSizes {
  ConvSizes(const TensorView& x, const TensorView& weight, const TensorView& y,
            const ConvGeometry& g);

  WindowGrid grid;
  int64_t images, groups;
  int64_t in_channels, out_channels;  // of one group
  int64_t in_plane, out_plane, taps;  // elements of the grid

  int64_t rows() const { return in_channels * taps; }
  // Whether a column is one input position, so that the input itself is the matrix of columns.
  bool pointwise() const;
  // First element of a group's channels of one image of x or y.
  int64_t in_offset(int64_t image, int64_t group) const {
    return (image * groups + group) * in_channels * in_plane;
  }
  int64_t out_offset(int64_t image, int64_t group) const {
    return (image * groups + group) * out_channels * out_plane;
  }
};

// Either some positions of one image or all positions of several.
struct ConvTile {
  int64_t image, images;
  int64_t first, count;  // positions of each image

  int64_t columns() const { return images * count; }
};

// Divides all positions of all images into tiles such that a matrix of `rows` rows, the larger one
// of a matmul, has a few MiB at most. Depends only on the sizes.
class ConvTiles {
 public:
  ConvTiles(const ConvSizes& sizes, int64_t rows);

  int64_t count() const { return image_parts_ * position_parts_; }
  // Tiles are in order of image and, in an image, of position.
  ConvTile operator[](int64_t index) const;
  // Groups of images, and the tiles of each.
  int64_t image_parts() const { return image_parts_; }
  int64_t position_parts() const { return position_parts_; }

 private:
  int64_t total_images_, total_positions_;
  int64_t images_, positions_;  // of a full tile
  int64_t image_parts_, position_parts_;
};

struct ChannelRange {
  int64_t begin, end;
};

// Copies x to columns [channels x taps, tile.columns()], in x's own type; padding is 0.
void make_columns(const ConvSizes& sizes, const TensorView& x, int64_t group, ChannelRange channels,
                  const ConvTile& tile, void* columns);

// The reverse: adds columns to planes [tile.images, channels, in_plane].
void add_columns(const ConvSizes& sizes, const float* columns, ChannelRange channels,
                 const ConvTile& tile, float* planes);
void add_columns(const ConvSizes& sizes, const double* columns, ChannelRange channels,
                 const ConvTile& tile, double* planes);

}  // namespace binade::backend::cpu
