// q4_k: y = (d * s[b]) * q - (dmin * m[b]), q in 0..15, s and m in 0..63. 256 elements in 144
// bytes. Block: d f16 | dmin f16 | 12 bytes of scales and mins (k_scales.h) | 128 bytes of q.
// Element 64 c + j is the low nibble of byte 32 c + j, element 64 c + 32 + j its high nibble;
// b counts runs of 32 elements.
// Scale and min are exact products; then one multiply and one subtract, each rounded.
#pragma once

#include "retrograd/formats/k_scales.h"
#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q4_k {
  static constexpr int block_elements = 256, block_bytes = 144;

  static inline void decode(const uint8_t* src, float* dst) {
    float scale[8], min[8];
    decode_k_scales(src + 4, load_f16(src), load_f16(src + 2), scale, min);
    const uint8_t* q = src + 16;
    for (int b = 0; b < 8; ++b, dst += 32) {
      const uint8_t* run = q + 32 * (b / 2);
      const int shift = 4 * (b % 2);
#if defined(__AVX2__)
      const __m256 s = _mm256_set1_ps(scale[b]);
      const __m256 m = _mm256_set1_ps(min[b]);
      const floats_32 x = widen_unsigned(shift_bytes(load_256(run), shift, 0x0f));
      for (int k = 0; k < 4; ++k) {
        _mm256_storeu_ps(dst + 8 * k, _mm256_sub_ps(_mm256_mul_ps(s, x.part[k]), m));
      }
#else
      for (int j = 0; j < 32; ++j) {
        dst[j] = scale[b] * static_cast<float>((run[j] >> shift) & 0x0f) - min[b];
      }
#endif
    }
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
