#include "binade/backend/cuda/attention/rotation.cuh"
#include "binade/backend/cuda/quantize/computed.cuh"
#include "binade/backend/cuda/quantize/fused.h"

namespace binade::backend::cuda {
namespace {

// Heads side by side, of which the first ones are rotated.
template <class Reader>
struct Rotated : Bounds {
  static constexpr bool vectorized = Reader::vectorized;
  static constexpr int parts = 1, others = 0;
  static constexpr int in_flight = vectorized ? 2 : 1, blocks = vectorized ? 3 : 1;
  // What an element of a column is rotated with.
  struct Place {
    int to_other;  // the distance of the other element of its pair; 0 if nothing is rotated
    int pair;
    bool second;  // of its pair
  };
  struct Columns {
    Place place;  // of the first one
    int column;
  };
  struct Chunk {
    typename Reader::Chunk own;
    uint32_t row;
  };
  Reader x;
  DType dtype;
  const float *cosine, *sine;
  uint32_t tokens;
  int dim, rotated_columns;
  float sign;

  explicit Rotated(const RotatedHeads& heads)
      : Bounds{heads.x.shape[0] * heads.x.shape[1], heads.x.shape[2] * heads.x.shape[3]},
        x(heads.x),
        dtype(heads.x.dtype),
        cosine(heads.cosine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        sine(heads.sine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        tokens(static_cast<uint32_t>(heads.x.shape[1])),
        dim(static_cast<int>(heads.x.shape[3])),
        rotated_columns(static_cast<int>(heads.rotated) * dim),
        sign(heads.inverse ? -1.0f : 1.0f) {}

  __device__ Place place_of(int column) const {
    if (column >= rotated_columns) return {};
    const int half = dim / 2, pair = column % half;
    const bool second = column % dim != pair;
    return {second ? -half : half, pair, second};
  }
  __device__ Columns columns_at(int64_t column) const {
    return {place_of(static_cast<int>(column)), static_cast<int>(column)};
  }

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    x.load(row * columns + column, count(row, column), chunk.own);
    chunk.row = static_cast<uint32_t>(row);
  }
  // Other elements and angles are loaded here: neighbors have brought most of them to the cache.
  __device__ void values(const Columns& at, const Chunk& chunk,
                         float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) out[0][i] = chunk.own[i];
    if constexpr (vectorized) {  // the columns are of one half of a head
      if (at.place.to_other != 0 && count(chunk.row, at.column) > 0)
        rotate_all(at, chunk.row, out[0]);
    } else {
#pragma unroll 1
      for (int i = 0; i < chunk_bytes && i < count(chunk.row, at.column); ++i)
        rotate_one(place_of(at.column + i), at.column + i, chunk.row, out[0][i]);
    }
    round_to(dtype, out[0]);
  }

 private:
  // What a pair's two elements are multiplied by, with signs: cosine and -sine for the first
  // element of the result, sine and cosine for the second.
  struct Factors {
    const float *of_first, *of_second;
    float first_sign, second_sign;
  };
  __device__ Factors factors_at(const Place& place, uint32_t row) const {
    const uint32_t angle =
        row % tokens * static_cast<uint32_t>(dim / 2) + static_cast<uint32_t>(place.pair);
    if (place.second) return {sine + angle, cosine + angle, sign, 1};
    return {cosine + angle, sine + angle, 1, -sign};
  }

  __device__ void rotate_all(const Columns& at, uint32_t row, float (&own)[chunk_bytes]) const {
    typename Reader::Chunk other;
    x.load(row * columns + at.column + at.place.to_other, chunk_bytes, other);
    const Factors factors = factors_at(at.place, row);
#pragma unroll
    for (int i = 0; i < chunk_bytes; i += 4) {
      const auto of_first = load_pack<float, 4>(factors.of_first + i),
                 of_second = load_pack<float, 4>(factors.of_second + i);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float first = at.place.second ? other[i + j] : own[i + j],
                    second = at.place.second ? own[i + j] : other[i + j];
        own[i + j] = rotated_element(first, factors.first_sign * of_first[j], second,
                                     factors.second_sign * of_second[j]);
      }
    }
  }
  __device__ void rotate_one(const Place& place, int column, uint32_t row, float& own) const {
    if (place.to_other == 0) return;
    const float other = load_one<float>(x.x, row * columns + column + place.to_other);
    const Factors factors = factors_at(place, row);
    own = rotated_element(place.second ? other : own, factors.first_sign * *factors.of_first,
                          place.second ? own : other, factors.second_sign * *factors.of_second);
  }
};

}  // namespace

void quantize_rope(const RotatedHeads& heads, const QuantizedOutput& out) {
  // Chunks must not cross from one half of a head to the other.
  quantize_from({&heads.x}, heads.x.shape[3] / 2, out,
                [&](auto tag) { return Rotated<typename decltype(tag)::type>(heads); },
                {&heads.cosine, &heads.sine});
}

}  // namespace binade::backend::cuda
