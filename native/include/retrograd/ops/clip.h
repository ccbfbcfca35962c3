// clip: norm = sqrt(total), total = the chunk sums added pairwise in float64 (neighbours, an odd
// last one passes up, until one is left); scale = min(1, max_norm / max(norm, 1e-12)) rounded once
// to float32. max_norm <= 0 gives scale 1. `scratch` holds n doubles. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define CLIP_FORWARD(F) \
  F(const double*, sums) F(double*, norm) F(float*, scale) F(double*, scratch) F(int64_t, n) \
  F(double, max_norm)
// clang-format on
RETRO_ARGUMENTS(ClipForward, CLIP_FORWARD)
