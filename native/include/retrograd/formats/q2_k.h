// q2_k: y = (d * s[b]) * q - (dmin * m[b]), q in 0..3, s and m in 0..15. 256 elements in 84 bytes.
// Block: 16 bytes of (s low nibble, m high nibble), one per 16 elements | 64 bytes of q
//        | d f16 | dmin f16.
// Element 128 h + 32 p + j is bits [2p, 2p + 2) of byte 32 h + j.
// Scale and min are exact products (19 bits); then one multiply and one subtract, each rounded.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q2_k {
  static constexpr int block_elements = 256, block_bytes = 84;

  static inline void decode(const uint8_t* src, float* dst) {
    const uint8_t* q = src + 16;
    const float d = load_f16(src + 80);
    const float dmin = load_f16(src + 82);
    float scale[16], min[16];
    for (int b = 0; b < 16; ++b) {
      scale[b] = d * static_cast<float>(src[b] & 0x0f);
      min[b] = dmin * static_cast<float>(src[b] >> 4);
    }
#if defined(__AVX2__)
    for (int h = 0; h < 2; ++h) {
      const __m256i bytes = load_256(q + 32 * h);
      for (int p = 0; p < 4; ++p, dst += 32) {
        const floats_32 x = widen_unsigned(shift_bytes(bytes, 2 * p, 3));
        for (int k = 0; k < 4; ++k) {
          const int b = 8 * h + 2 * p + k / 2;
          const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(scale[b]), x.part[k]);
          _mm256_storeu_ps(dst + 8 * k, _mm256_sub_ps(scaled, _mm256_set1_ps(min[b])));
        }
      }
    }
#else
    for (int h = 0; h < 2; ++h) {
      for (int p = 0; p < 4; ++p, dst += 32) {
        for (int j = 0; j < 32; ++j) {
          const int b = 8 * h + 2 * p + j / 16;
          dst[j] = scale[b] * static_cast<float>((q[32 * h + j] >> (2 * p)) & 3) - min[b];
        }
      }
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
