// dropout: y[t,c] = 0 where the stream's word for element token_index[t] C + c is below rate 2^32,
// else x[t,c] scale, scale = 1/(1 - rate).
// Stream: Philox4x32-10, key `seed`, purpose dropout, step from the step buffer, `tensor` = first
// 32 bits of SHA-256 of the tensor's name, read big-endian. Tokens with token_index < 0 are padding
// and give 0. Backward is the same map applied to dy: the mask is drawn again, never stored.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define DROPOUT_FORWARD(F) \
  F(const float*, x) F(const int32_t*, token_index) F(const uint32_t*, step) F(float*, y) \
  F(int64_t, T) F(int64_t, C) F(uint64_t, seed) F(uint32_t, tensor) F(uint32_t, threshold) \
  F(float, scale)
// clang-format on
RETRO_ARGUMENTS(DropoutForward, DROPOUT_FORWARD)

// clang-format off
#define DROPOUT_BACKWARD(F) \
  F(const float*, dy) F(const int32_t*, token_index) F(const uint32_t*, step) F(float*, dx) \
  F(int64_t, T) F(int64_t, C) F(uint64_t, seed) F(uint32_t, tensor) F(uint32_t, threshold) \
  F(float, scale)
// clang-format on
RETRO_ARGUMENTS(DropoutBackward, DROPOUT_BACKWARD)
