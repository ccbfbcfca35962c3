// Pieces of a streaming softmax that attention and the fused head share.
//
// Sums and maxima over a row use 16 strided partials (j, j + 16, ...) and a tree 8, 4, 2, 1: a
// fixed order that compilers can vectorise without being allowed to reorder anything themselves.
#pragma once

#include <limits>

#include "retrograd/math.h"
#include "stream.h"

RETRO_BEGIN_VARIANT

static constexpr int kLanes = 16;
static constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

static inline float row_maximum(const float* x, int64_t n) {
  float partial[kLanes];
  for (int j = 0; j < kLanes; ++j) partial[j] = kNegativeInfinity;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) partial[j] = x[i + j] > partial[j] ? x[i + j] : partial[j];
  for (int j = 0; i + j < n; ++j) partial[j] = x[i + j] > partial[j] ? x[i + j] : partial[j];
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j)
      partial[j] = partial[j + width] > partial[j] ? partial[j + width] : partial[j];
  return partial[0];
}

// Sum of term(i) over i < n.
template <class Term>
static inline float row_sum(int64_t n, Term term) {
  float partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) partial[j] += term(i + j);
  for (int j = 0; i + j < n; ++j) partial[j] += term(i + j);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) partial[j] += partial[j + width];
  return partial[0];
}

// One row's state: maximum and sum of exp(x - maximum) so far.
struct Running {
  float maximum = kNegativeInfinity;
  float sum = 0.0f;

  // Replaces x[0..n) by exp(x - new maximum) and returns the
  // factor that earlier weighted sums need.
  inline float absorb(float* x, int64_t n) {
    const float tile = row_maximum(x, n);
    const float previous = maximum;
    const bool grows = tile > previous;
    if (grows) maximum = tile;
    const float factor = grows ? exp_f32(previous - maximum) : 1.0f;
    const float m = maximum;
    for (int64_t i = 0; i < n; ++i) x[i] = exp_f32(x[i] - m);
    sum = sum * factor + row_sum(n, [&](int64_t i) { return x[i]; });
    return factor;
  }
};

static inline void scale_row(float* x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

RETRO_END_VARIANT
