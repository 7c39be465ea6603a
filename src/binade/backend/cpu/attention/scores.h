#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "binade/backend/cpu/attention/matmuls.h"
#include "binade/backend/cpu/attention/softmax.h"

// What softcaps and windows change in a panel of scores before its softmax; tile.h describes
// panels.
namespace binade::backend::cpu::attention {

// cap * tanh(factor * score), where factor is the scores' scale over the cap.
template <class T>
struct Softcap {
  T cap = 0, factor = 0;

  template <class Call>
  static Softcap of(const Call& call) {
    if (call.softcap == 0) return {};
    return {static_cast<T>(call.softcap), static_cast<T>(call.scale / call.softcap)};
  }
};

// Replaces `count` scores by their capped values.
void cap_scores(const Softcap<float>& softcap, int64_t count, float* scores);
void cap_scores(const Softcap<double>& softcap, int64_t count, double* scores);

// In the backward, rows are queries: caps the scores and multiplies their gradients by the
// derivative of the cap. What softmax_gradient() makes of it is p * derivative * (gradient -
// delta).
template <class T>
struct CapGradient {
  Softcap<T> softcap;
  Span rows;
  int64_t width;
  T *scores, *gradients;  // [queries, width]
  const T* delta;
};
void cap_gradients(const CapGradient<float>& call);
void cap_gradients(const CapGradient<double>& call);

// Hides the keys before each query's window: scores become -inf. Rows are keys.
template <class T>
void hide_keys(const Mask& mask, int64_t keys, int64_t width, T* scores) {
  for (int64_t key = 0; key < keys; ++key) {
    const int64_t first = mask.first_beyond(key, width);
    std::fill(scores + key * width + first, scores + (key + 1) * width,
              -std::numeric_limits<T>::infinity());
  }
}

// The same where rows are queries; their gradients become delta, so that none is left.
template <class T>
void hide_keys_of(const Mask& mask, Span queries, int64_t width, const T* delta, T* scores,
                  T* gradients) {
  for (int64_t query = queries.begin; query < queries.end; ++query) {
    const int64_t hidden = mask.keys_before(query, width);
    std::fill_n(scores + query * width, hidden, -std::numeric_limits<T>::infinity());
    std::fill_n(gradients + query * width, hidden, delta[query]);
  }
}

}  // namespace binade::backend::cpu::attention
