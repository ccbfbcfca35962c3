// dequantize: y = the n elements of w in float32. Contract: pinned,
// equal to the gguf package's decoders.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define DEQUANTIZE_FORWARD(F) \
  F(const uint8_t*, w) F(float*, y) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(DequantizeForward, DEQUANTIZE_FORWARD)
