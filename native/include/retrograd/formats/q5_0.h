// q5_0: y[i] = d * (q[i] - 16), q in 0..31. 32 elements in 22 bytes.
// Block: d f16 | h u32 | 16 bytes; q[i] = nibble i (as in q4_0) + 16 * bit i of h.
// One multiply, rounded once.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q5_0 {
  static constexpr int block_elements = 32, block_bytes = 22;

  static inline void decode(const uint8_t* src, float* dst) {
    const float d = load_f16(src);
    const uint32_t h = load_u32(src + 2);
    const uint8_t* q = src + 6;
#if defined(__AVX2__)
    const __m256 scale = _mm256_set1_ps(d);
    const __m256i joined = _mm256_or_si256(nibbles_32(q), bits_to_bytes(h, 16));
    const floats_32 x = widen_signed(_mm256_sub_epi8(joined, _mm256_set1_epi8(16)));
    for (int k = 0; k < 4; ++k) {
      _mm256_storeu_ps(dst + 8 * k, _mm256_mul_ps(scale, x.part[k]));
    }
#else
    for (int j = 0; j < 16; ++j) {
      const int low = (q[j] & 0x0f) | static_cast<int>(((h >> j) & 1u) << 4);
      const int high = (q[j] >> 4) | static_cast<int>(((h >> (j + 16)) & 1u) << 4);
      dst[j] = d * static_cast<float>(low - 16);
      dst[j + 16] = d * static_cast<float>(high - 16);
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
