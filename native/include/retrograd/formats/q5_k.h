// q5_k: y = (d * s[b]) * q - (dmin * m[b]), q in 0..31, s and m in 0..63. 256 elements in 176
// bytes. Block: d f16 | dmin f16 | 12 bytes of scales and mins (k_scales.h) | 32 bytes of high bits
//        | 128 bytes of nibbles, laid out as in q4_k.
// q of element 32 b + j is its nibble + 16 * bit b of high byte j.
// Scale and min are exact products; then one multiply and one subtract, each rounded.
#pragma once

#include "retrograd/formats/k_scales.h"
#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q5_k {
  static constexpr int block_elements = 256, block_bytes = 176;

  static inline void decode(const uint8_t* src, float* dst) {
    float scale[8], min[8];
    decode_k_scales(src + 4, load_f16(src), load_f16(src + 2), scale, min);
    const uint8_t* high = src + 16;
    const uint8_t* q = src + 48;
    for (int b = 0; b < 8; ++b, dst += 32) {
      const uint8_t* run = q + 32 * (b / 2);
      const int shift = 4 * (b % 2);
#if defined(__AVX2__)
      const __m256 s = _mm256_set1_ps(scale[b]);
      const __m256 m = _mm256_set1_ps(min[b]);
      const __m256i bit = _mm256_slli_epi16(shift_bytes(load_256(high), b, 1), 4);
      const __m256i nibble = shift_bytes(load_256(run), shift, 0x0f);
      const floats_32 x = widen_unsigned(_mm256_or_si256(nibble, bit));
      for (int k = 0; k < 4; ++k) {
        _mm256_storeu_ps(dst + 8 * k, _mm256_sub_ps(_mm256_mul_ps(s, x.part[k]), m));
      }
#else
      for (int j = 0; j < 32; ++j) {
        const int value = ((run[j] >> shift) & 0x0f) | (((high[j] >> b) & 1) << 4);
        dst[j] = scale[b] * static_cast<float>(value) - min[b];
      }
#endif
    }
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
