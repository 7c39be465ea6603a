#pragma once

#include <cuda_runtime.h>

#include "binade/backend/attention.h"
#include "binade/backend/cuda/attention/common.cuh"

// Which rows see one another in attention within documents.
namespace binade::backend::cuda::native {

// Rows `first` .. `end`.
struct Span {
  int first, end;
};

// Every row sees itself, and both ends of spans ascend from row to row. So the rows that some row
// of a tile sees are a span too, and tiles of queries and tiles of keys agree on which of them
// meet.
struct RowSpans {
  const longlong2* bounds;  // of the documents of rows; null: they have `length` rows
  int rows, length, window;
  bool causal;

  RowSpans() = default;
  RowSpans(const DocumentRows& documents, const Sizes& sizes)
      : bounds(documents.bounds.present ? documents.bounds.as<longlong2>() : nullptr),
        rows(sizes.queries),
        length(static_cast<int>(documents.length)),
        window(documents.window > 0 && documents.window < sizes.queries
                   ? static_cast<int>(documents.window)
                   : sizes.queries),
        causal(sizes.causal) {}

  __device__ Span document(int row) const {
    if (bounds != nullptr) {
      const longlong2 at = __ldg(bounds + row);
      return {row - static_cast<int>(at.x), row + static_cast<int>(at.y)};
    }
    const int first = row / length * length;
    return {first, min(first + length, rows)};
  }
  __device__ Span keys(int query) const {
    const Span all = document(query);
    return causal ? Span{max(all.first, query + 1 - window), query + 1} : all;
  }
  __device__ Span queries(int key) const {
    const Span all = document(key);
    return causal ? Span{key, min(all.end, key + window)} : all;
  }
  // The last row of a tile of `size` rows.
  __device__ int last_row(int tile, int size) const { return min((tile + 1) * size, rows) - 1; }
};

// Which tiles of one side meet a tile of the other, and those of them in which no pair is hidden.
struct TileSpan {
  Span some, full;
};

// The tiles of `Keys` keys that a tile of `Queries` queries sees.
template <int Queries, int Keys>
__device__ inline TileSpan key_tiles_of(const RowSpans& spans, int tile) {
  const Span first = spans.keys(tile * Queries), last = spans.keys(spans.last_row(tile, Queries));
  return {{first.first / Keys, ceil_div(last.end, Keys)},
          {ceil_div(last.first, Keys), first.end / Keys}};
}
// The tiles of `Queries` queries that see a tile of `Keys` keys. Keys past the end are hidden.
template <int Queries, int Keys>
__device__ inline TileSpan query_tiles_of(const RowSpans& spans, int tile) {
  const Span first = spans.queries(tile * Keys), last = spans.queries(spans.last_row(tile, Keys));
  const bool complete = (tile + 1) * Keys <= spans.rows;
  return {{first.first / Queries, ceil_div(last.end, Queries)},
          {ceil_div(last.first, Queries), complete ? first.end / Queries : 0}};
}

// Hides scores of one row of a tile: columns, from the thread's first one on, outside a span. The
// thread holds element i of every fourth from `2 * Row` on, in column i / 4 * 8 + i % 2.
template <int Row, int N>
__device__ inline void hide_outside(float (&x)[N], Span seen, float hidden) {
  const int count = max(seen.end - seen.first, 0);
#pragma unroll
  for (int i = 2 * Row; i < N; i += 4) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const unsigned at = static_cast<unsigned>(i / 4 * 8 + j - seen.first);
      if (at >= static_cast<unsigned>(count)) x[i + j] = hidden;
    }
  }
}

}  // namespace binade::backend::cuda::native
