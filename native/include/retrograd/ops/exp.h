// exp: y = e^x over n elements, by math.h. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define EXP_FORWARD(F) \
  F(const float*, x) F(float*, y) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(ExpForward, EXP_FORWARD)
