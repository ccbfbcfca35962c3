// rope: rotary position embedding of heads of D elements, of which the first n_rot rotate
// (arXiv:2104.09864). Pair i of token t: (a, b) -> (a cos - b sin, a sin + b cos), cos and sin from
// row positions[t] of tables (P, n_rot/2). neox = 1 pairs (i, i + n_rot/2); neox = 0 pairs
// (2i, 2i + 1). Backward rotates by the negative angle.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define ROPE_FORWARD(F) \
  F(const float*, x) F(const int32_t*, positions) F(const float*, cos) F(const float*, sin) \
  F(float*, y) F(int64_t, T) F(int64_t, C) F(int64_t, P) F(int32_t, head_size) \
  F(int32_t, n_rot) F(int32_t, neox)
// clang-format on
RETRO_ARGUMENTS(RopeForward, ROPE_FORWARD)

// clang-format off
#define ROPE_BACKWARD(F) \
  F(const float*, dy) F(const int32_t*, positions) F(const float*, cos) F(const float*, sin) \
  F(float*, dx) F(int64_t, T) F(int64_t, C) F(int64_t, P) F(int32_t, head_size) \
  F(int32_t, n_rot) F(int32_t, neox)
// clang-format on
RETRO_ARGUMENTS(RopeBackward, ROPE_BACKWARD)
