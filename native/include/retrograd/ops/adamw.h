// adamw step, decoupled decay (arXiv:1711.05101), all float32, one rounding per operation:
//   g = s g;  m = b1 m + c1 g;  v = b2 v + (c2 g) g;
//   x = x w - lr ((m / k1) / (sqrt(v / k2) + eps))
// in this order. `settings` is read from device memory, since lr, k1, k2 and w change between
// steps; `clip` holds s.
#pragma once
#include "retrograd/arguments.h"

namespace retrograd {
// c1 = 1 - b1, c2 = 1 - b2, k1 = 1 - b1^t, k2 = 1 - b2^t,
// w = 1 - lr wd: float64 on the host, rounded once.
struct AdamwSettings {
  float lr, b1, b2, c1, c2, k1, k2, eps, w;
};
}  // namespace retrograd

// clang-format off
#define ADAMW_STEP(F) \
  F(const float*, g) F(const AdamwSettings*, settings) F(const float*, clip) F(float*, x) \
  F(float*, m) F(float*, v) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(AdamwStep, ADAMW_STEP)
