// q4_0: y[i] = d * (q[i] - 8), q in 0..15. 32 elements in 18 bytes.
// Block: d f16 | 16 bytes; byte j holds q[j] in its low and q[j + 16] in its high nibble.
// One multiply, rounded once.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q4_0 {
  static constexpr int block_elements = 32, block_bytes = 18;

  static inline void decode(const uint8_t* src, float* dst) {
    const float d = load_f16(src);
    const uint8_t* q = src + 2;
#if defined(__AVX2__)
    const __m256 scale = _mm256_set1_ps(d);
    const __m256i centred = _mm256_sub_epi8(nibbles_32(q), _mm256_set1_epi8(8));
    const floats_32 x = widen_signed(centred);
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_ps(dst + 8 * k, _mm256_mul_ps(scale, x.part[k]));
    }
#else
    for (int j = 0; j < 16; ++j) {
      dst[j] = d * static_cast<float>((q[j] & 0x0f) - 8);
      dst[j + 16] = d * static_cast<float>((q[j] >> 4) - 8);
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
