// rms_norm: y = x w r with r = 1/sqrt(mean x^2 + eps) over rows of C elements (arXiv:1910.07467).
#pragma once
#include "retrograd/arguments.h"

// clang-format off
#define RMS_NORM_FORWARD(F) \
  F(const float*, x) F(const float*, w) F(float*, y) F(float*, r) F(int64_t, T) F(int64_t, C) \
  F(float, eps)
// clang-format on
RETRO_ARGUMENTS(RmsNormForward, RMS_NORM_FORWARD)

// clang-format off
#define RMS_NORM_BACKWARD(F) \
  F(const float*, dy) F(const float*, x) F(const float*, w) F(const float*, r) \
  F(const float*, c) F(float*, dx) F(int64_t, T) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(RmsNormBackward, RMS_NORM_BACKWARD)

// clang-format off
#define RMS_NORM_BACKWARD_WEIGHT(F) \
  F(const float*, dy) F(const float*, x) F(const float*, r) F(const float*, c) F(float*, dw) \
  F(float*, scratch) F(int64_t, T) F(int64_t, C)
// clang-format on
RETRO_ARGUMENTS(RmsNormBackwardWeight, RMS_NORM_BACKWARD_WEIGHT)
