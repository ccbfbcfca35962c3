// q4_1: y[i] = d * q[i] + m, q in 0..15. 32 elements in 20 bytes.
// Block: d f16 | m f16 | 16 bytes; byte j holds q[j] in its low and q[j + 16] in its high nibble.
// One multiply, then one add, each rounded.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q4_1 {
  static constexpr int block_elements = 32, block_bytes = 20;

  static inline void decode(const uint8_t* src, float* dst) {
    const float d = load_f16(src);
    const float m = load_f16(src + 2);
    const uint8_t* q = src + 4;
#if defined(__AVX2__)
    const __m256 scale = _mm256_set1_ps(d);
    const __m256 min = _mm256_set1_ps(m);
    const floats_32 x = widen_unsigned(nibbles_32(q));
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_ps(dst + 8 * k, _mm256_add_ps(_mm256_mul_ps(scale, x.part[k]), min));
    }
#else
    for (int j = 0; j < 16; ++j) {
      dst[j] = d * static_cast<float>(q[j] & 0x0f) + m;
      dst[j + 16] = d * static_cast<float>(q[j] >> 4) + m;
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
