// log: y = ln x over n elements, by math.h. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

#define LOG_FORWARD(F) F(const float*, x) F(float*, y) F(int64_t, n)
RETRO_ARGUMENTS(LogForward, LOG_FORWARD)
