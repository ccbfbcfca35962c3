// sgd step, decoupled decay, all float32, one rounding per operation, in this order:
//   g = s g;  buf = mu buf + g;  u = nesterov ? g + mu buf : buf;  x = x w - lr u
// Without momentum `buf` is null and u = g. `settings` and `clip` (s) are read from device memory.
#pragma once
#include "retrograd/arguments.h"

namespace retrograd {
// w = 1 - lr wd: float64 on the host, rounded once.
struct SgdSettings {
  float lr, mu, w;
};
}  // namespace retrograd

// clang-format off
#define SGD_STEP(F) \
  F(const float*, g) F(const SgdSettings*, settings) F(const float*, clip) F(float*, x) \
  F(float*, buf) F(int64_t, n) F(int32_t, nesterov)
// clang-format on
RETRO_ARGUMENTS(SgdStep, SGD_STEP)
