// Every storage format, for the kernels that have one row per format: RETRO_FOR_EACH_FORMAT(X)
// expands X(infix, Format) for each of them. `infix` is the dtype slot of a row's symbol:
// `q4_1_f32` for the row dtype `q4_1-f32`, and plain `f32` for f32.
#pragma once

#include "retrograd/formats/decode.h"

#define RETRO_FOR_EACH_FORMAT(X) \
  X(f32, f32)                    \
  X(f16_f32, f16)                \
  X(bf16_f32, bf16)              \
  X(q4_0_f32, q4_0)              \
  X(q4_1_f32, q4_1)              \
  X(q5_0_f32, q5_0)              \
  X(q5_1_f32, q5_1)              \
  X(q8_0_f32, q8_0)              \
  X(q2_k_f32, q2_k)              \
  X(q3_k_f32, q3_k)              \
  X(q4_k_f32, q4_k)              \
  X(q5_k_f32, q5_k)              \
  X(q6_k_f32, q6_k)
