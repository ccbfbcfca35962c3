// fill: y = value over n elements.
#pragma once
#include "retrograd/arguments.h"

#define FILL_FORWARD(F) F(float*, y) F(int64_t, n) F(float, value)
RETRO_ARGUMENTS(FillForward, FILL_FORWARD)
