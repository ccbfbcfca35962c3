// swiglu: y = silu(g) u with silu(g) = g s(g), s the logistic function.
// Backward: du = dy silu(g); dg = dy u s(g) (1 + g (1 - s(g))).
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define SWIGLU_FORWARD(F) \
  F(const float*, g) F(const float*, u) F(float*, y) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(SwigluForward, SWIGLU_FORWARD)

// clang-format off
#define SWIGLU_BACKWARD(F) \
  F(const float*, dy) F(const float*, g) F(const float*, u) F(float*, dg) F(float*, du) \
  F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(SwigluBackward, SWIGLU_BACKWARD)
