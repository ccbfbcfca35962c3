// scatter_rows: y[rows[t],:] = x[t,:] in place over a buffer of N rows; rows outside [0, N) are
// dropped (padding). The rows of one call are distinct. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define SCATTER_ROWS_FORWARD(F) \
  F(const float*, x) F(const int32_t*, rows) F(float*, y) F(int64_t, T) F(int64_t, N) \
  F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(ScatterRowsForward, SCATTER_ROWS_FORWARD)
