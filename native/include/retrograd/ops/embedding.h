// embedding: y[t,:] = row ids[t] of w (V, C), dequantized. An id outside [0, V) gives a row of
// zeros and sets no error: the host checks ids before a step.
// Backward for the weight: dw[ids[t],:] += dy[t,:] over t in order, on top of c (c may be dw
// itself, or null for zeros). Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define EMBEDDING_FORWARD(F) \
  F(const int32_t*, ids) F(const uint8_t*, w) F(float*, y) F(int64_t, T) F(int64_t, V) \
  F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(EmbeddingForward, EMBEDDING_FORWARD)

// clang-format off
#define EMBEDDING_BACKWARD_WEIGHT(F) \
  F(const float*, dy) F(const int32_t*, ids) F(const float*, c) F(float*, dw) F(int64_t, T) \
  F(int64_t, V) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(EmbeddingBackwardWeight, EMBEDDING_BACKWARD_WEIGHT)
