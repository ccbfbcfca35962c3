// q6_k: y = (d * s[b]) * q, q in -32..31, s a signed byte. 256 elements in 210 bytes.
// Block: 128 bytes of low nibbles | 64 bytes of high pairs | 16 signed scales | d f16.
// Element 128 h + 32 p + j: low nibble from byte 64 h + 32 (p % 2) + j (its high half for p >= 2),
// high pair from bits [2p, 2p + 2) of byte 32 h + j, less 32. One scale per 16 elements.
// d * s is exact (19 bits); then one multiply, rounded once.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q6_k {
  static constexpr int block_elements = 256, block_bytes = 210;

  static inline void decode(const uint8_t* src, float* dst) {
    const uint8_t* scales = src + 192;
    const float d = load_f16(src + 208);
    float scale[16];
    for (int b = 0; b < 16; ++b) scale[b] = d * static_cast<float>(static_cast<int8_t>(scales[b]));
    for (int h = 0; h < 2; ++h) {
      const uint8_t* high = src + 128 + 32 * h;
      for (int p = 0; p < 4; ++p, dst += 32) {
        const uint8_t* low = src + 64 * h + 32 * (p % 2);
        const int shift = 4 * (p / 2);
#if defined(__AVX2__)
        const __m256i nibble = shift_bytes(load_256(low), shift, 0x0f);
        const __m256i pair = _mm256_slli_epi16(shift_bytes(load_256(high), 2 * p, 3), 4);
        const __m256i joined = _mm256_or_si256(nibble, pair);
        const floats_32 x = widen_signed(_mm256_sub_epi8(joined, _mm256_set1_epi8(32)));
        for (int k = 0; k < 4; ++k) {
          const __m256 s = _mm256_set1_ps(scale[8 * h + 2 * p + k / 2]);
          _mm256_storeu_ps(dst + 8 * k, _mm256_mul_ps(s, x.part[k]));
        }
#else
        for (int j = 0; j < 32; ++j) {
          const int nibble = (low[j] >> shift) & 0x0f;
          const int value = (nibble | (((high[j] >> (2 * p)) & 3) << 4)) - 32;
          dst[j] = scale[8 * h + 2 * p + j / 16] * static_cast<float>(value);
        }
#endif
      }
    }
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
