// fill: y = value over n elements.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define FILL_FORWARD(F) \
  F(float*, y) F(int64_t, n) F(float, value)
// clang-format on
RETRO_ARGUMENTS(FillForward, FILL_FORWARD)
