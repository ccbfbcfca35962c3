// matmul: y = alpha x w^T [+ c], w (N, K) in any storage format, x (T, K), y and c (T, N).
// backward (activation): dx = alpha dy w [+ c].  backward_weight: dw = alpha dy^T x [+ c].
// c may be the output's own buffer. `scratch` holds dequantized rows of w (none for f32).
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define MATMUL_FORWARD(F) \
  F(const float*, x) F(const uint8_t*, w) F(const float*, c) F(float*, y) F(float*, scratch) \
  F(int64_t, T) F(int64_t, N) F(int64_t, K) F(float, alpha)
// clang-format on
RETRO_ARGUMENTS(MatmulForward, MATMUL_FORWARD)

// clang-format off
#define MATMUL_BACKWARD(F) \
  F(const float*, dy) F(const uint8_t*, w) F(const float*, c) F(float*, dx) \
  F(float*, scratch) F(int64_t, T) F(int64_t, N) F(int64_t, K) F(float, alpha)
// clang-format on
RETRO_ARGUMENTS(MatmulBackward, MATMUL_BACKWARD)

// clang-format off
#define MATMUL_BACKWARD_WEIGHT(F) \
  F(const float*, dy) F(const float*, x) F(const float*, c) F(float*, dw) F(int64_t, T) \
  F(int64_t, N) F(int64_t, K) F(float, alpha)
// clang-format on
RETRO_ARGUMENTS(MatmulBackwardWeight, MATMUL_BACKWARD_WEIGHT)
