#include "binade/backend/cuda/attention/rotation.cuh"
#include "binade/backend/cuda/quantize/computed.cuh"
#include "binade/backend/cuda/quantize/fused.h"

namespace binade::backend::cuda {
namespace {

// Heads side by side, of which the first ones are rotated.
struct Heads : Bounds {
  static constexpr int others = 0;
  DType dtype;
  const float *cosine, *sine;
  uint32_t tokens;
  int half, rotated_heads;
  float sign;

  Heads(const RotatedHeads& heads, int parts)
      : Bounds{heads.x.shape[0] * heads.x.shape[1], heads.x.shape[2] * heads.x.shape[3] / parts},
        dtype(heads.x.dtype),
        cosine(heads.cosine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        sine(heads.sine.as<const float>() + heads.start * (heads.x.shape[3] / 2)),
        tokens(static_cast<uint32_t>(heads.x.shape[1])),
        half(static_cast<int>(heads.x.shape[3] / 2)),
        rotated_heads(static_cast<int>(heads.rotated)),
        sign(heads.inverse ? -1.0f : 1.0f) {}

  // Where the factors of a row's pair are.
  __device__ uint32_t angle(uint32_t row, int pair) const {
    return row % tokens * static_cast<uint32_t>(half) + static_cast<uint32_t>(pair);
  }
  // The elements of a rotated pair.
  __device__ float first_of(float first, float second, float cos, float sin) const {
    return rotated_element(first, cos, second, -sign * sin);
  }
  __device__ float second_of(float first, float second, float cos, float sin) const {
    return rotated_element(first, sign * sin, second, cos);
  }
};

// The parts are the first and the second halves of all heads, so that a thread has whole pairs and
// loads every operand once. Chunks must not cross from one half of a head to the other.
template <class Reader>
struct RotatedHalves : Heads {
  static constexpr bool vectorized = true;
  static constexpr int parts = 2;
  // A chunk has loads enough, factors included; f32 takes the registers of a third block.
  static constexpr int in_flight = 1, blocks = sizeof(typename Reader::Chunk) > 32 ? 2 : 3;
  struct Chunk {
    typename Reader::Chunk first, second;
    Words<float> cosine, sine;
    bool rotated;
  };
  Reader x;

  explicit RotatedHalves(const RotatedHeads& heads) : Heads(heads, parts), x(heads.x) {}

  __device__ int64_t place(int part, int64_t column) const {
    const int head = static_cast<int>(column) / half;
    return column + head * half + part * half;
  }
  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    const int64_t at = row * parts * columns + place(0, column);
    x.load(at, count(row, column), chunk.first);
    x.load(at + half, count(row, column), chunk.second);
    chunk.rotated = row < rows && column < int64_t{rotated_heads} * half;
    const uint32_t from = angle(static_cast<uint32_t>(row), static_cast<int>(column) % half);
    chunk.cosine.load(cosine + from, chunk.rotated);
    chunk.sine.load(sine + from, chunk.rotated);
  }
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
#pragma unroll
    for (int i = 0; i < chunk_bytes; ++i) {
      const float first = chunk.first[i], second = chunk.second[i];
      const float cos = chunk.cosine[i], sin = chunk.sine[i];
      out[0][i] = chunk.rotated ? first_of(first, second, cos, sin) : first;
      out[1][i] = chunk.rotated ? second_of(first, second, cos, sin) : second;
    }
    round_to(Reader::dtype(dtype), out[0]);
    round_to(Reader::dtype(dtype), out[1]);
  }
};

// Element by element, for heads of any size.
struct RotatedElements : Heads {
  static constexpr bool vectorized = false;
  static constexpr int parts = 1, in_flight = 1, blocks = 1;
  struct Chunk {
    ElementReader::Chunk own;
    int64_t row, column;
  };
  ElementReader x;

  explicit RotatedElements(const RotatedHeads& heads) : Heads(heads, parts), x(heads.x) {}

  __device__ void load(int64_t row, int64_t column, Chunk& chunk) const {
    x.load(row * columns + column, count(row, column), chunk.own);
    chunk.row = row;
    chunk.column = column;
  }
  __device__ void values(NoColumns, const Chunk& chunk, float (&out)[parts][chunk_bytes]) const {
#pragma unroll 1
    for (int i = 0; i < chunk_bytes; ++i) {
      out[0][i] = chunk.own[i];
      if (i < count(chunk.row, chunk.column))
        rotate(chunk.row, static_cast<int>(chunk.column) + i, out[0][i]);
    }
    round_to(dtype, out[0]);
  }

 private:
  __device__ void rotate(int64_t row, int column, float& own) const {
    const int head = column / (2 * half), pair = column % half;
    if (head >= rotated_heads) return;
    const bool is_first = column % (2 * half) < half;
    const float other = load_one<float>(x.x, row * columns + column + (is_first ? half : -half));
    const uint32_t at = angle(static_cast<uint32_t>(row), pair);
    own = is_first ? first_of(own, other, cosine[at], sine[at])
                   : second_of(other, own, cosine[at], sine[at]);
  }
};

}  // namespace

void quantize_rope(const RotatedHeads& heads, const QuantizedOutput& out) {
  // Chunks must not cross from one half of a head to the other.
  quantize_from({&heads.x}, heads.x.shape[3] / 2, out,
                [&](auto tag) {
                  using Reader = typename decltype(tag)::type;
                  if constexpr (Reader::vectorized) {
                    return RotatedHalves<Reader>(heads);
                  } else {
                    return RotatedElements(heads);
                  }
                },
                {&heads.cosine, &heads.sine});
}

}  // namespace binade::backend::cuda
