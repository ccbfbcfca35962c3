// linear_cross_entropy: nll[t] = logsumexp_v(h[t].w[v]) - h[t].w[targets[t]] without a T x V array;
// targets[t] < 0 is ignored and gives nll = 0. With dh_unit: the gradient of nll[t] with respect to
// h[t], softmax(z) w - w[target], found in the same pass over vocabulary tiles (running maximum,
// sum and weighted sum of rows of w).
// backward: dh[t,:] = dnll[t] dh_unit[t,:].
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define LINEAR_CROSS_ENTROPY_FORWARD(F) \
  F(const float*, h) F(const uint8_t*, w) F(const int32_t*, targets) F(float*, nll) \
  F(float*, dh_unit) F(float*, scratch) F(int64_t, T) F(int64_t, V) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(LinearCrossEntropyForward, LINEAR_CROSS_ENTROPY_FORWARD)

// clang-format off
#define LINEAR_CROSS_ENTROPY_BACKWARD(F) \
  F(const float*, dnll) F(const float*, dh_unit) F(float*, dh) F(int64_t, T) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(LinearCrossEntropyBackward, LINEAR_CROSS_ENTROPY_BACKWARD)
