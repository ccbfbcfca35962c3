// add: y = a + b over n elements. Rounding: one float32 addition. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define ADD_FORWARD(F) \
  F(const float*, a) F(const float*, b) F(float*, y) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(AddForward, ADD_FORWARD)
