// sum_squares: chunk sums of g^2 in float64; chunk i covers elements [4096 i, 4096 i + 4096) and
// goes to sums[i]. In a chunk: 32 strided partial sums (j, j + 32, ...), each in order, then a tree
// 16, 8, 4, 2, 1. Contract: pinned.
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define SUM_SQUARES_FORWARD(F) \
  F(const float*, g) F(double*, sums) F(int64_t, n)
// clang-format on
RETRO_ARGUMENTS(SumSquaresForward, SUM_SQUARES_FORWARD)
