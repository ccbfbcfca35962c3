// bias: y[t,c] = x[t,c] + b[c].  Backward for the weight: db[c] = sum_t dy[t,c] [+ acc[c]].
// Sum over T: f32 over blocks of 64 rows in row order, then the blocks in order.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define BIAS_FORWARD(F) \
  F(const float*, x) F(const float*, b) F(float*, y) F(int64_t, T) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(BiasForward, BIAS_FORWARD)

// clang-format off
#define BIAS_BACKWARD_WEIGHT(F) \
  F(const float*, dy) F(const float*, c) F(float*, db) F(float*, scratch) F(int64_t, T) \
  F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(BiasBackwardWeight, BIAS_BACKWARD_WEIGHT)
