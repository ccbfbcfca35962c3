// q5_1: y[i] = d * q[i] + m, q in 0..31. 32 elements in 24 bytes.
// Block: d f16 | m f16 | h u32 | 16 bytes; q[i] = nibble i (as in q4_0) + 16 * bit i of h.
// One multiply, then one add, each rounded.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q5_1 {
  static constexpr int block_elements = 32, block_bytes = 24;

  static inline void decode(const uint8_t* src, float* dst) {
    const float d = load_f16(src);
    const float m = load_f16(src + 2);
    const uint32_t h = load_u32(src + 4);
    const uint8_t* q = src + 8;
#if defined(__AVX2__)
    const __m256 scale = _mm256_set1_ps(d);
    const __m256 min = _mm256_set1_ps(m);
    const floats_32 x = widen_unsigned(_mm256_or_si256(nibbles_32(q), bits_to_bytes(h, 16)));
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_ps(dst + 8 * k, _mm256_add_ps(_mm256_mul_ps(scale, x.part[k]), min));
    }
#else
    for (int j = 0; j < 16; ++j) {
      const uint32_t low = (q[j] & 0x0fu) | (((h >> j) & 1u) << 4);
      const uint32_t high = (q[j] >> 4) | (((h >> (j + 16)) & 1u) << 4);
      dst[j] = d * static_cast<float>(low) + m;
      dst[j + 16] = d * static_cast<float>(high) + m;
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
