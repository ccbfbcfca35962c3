// q8_0: y[i] = d * q[i], q a signed byte. 32 elements in 34 bytes.
// Block: d f16 | 32 signed bytes. One multiply, rounded once.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q8_0 {
  static constexpr int block_elements = 32, block_bytes = 34;

  static inline void decode(const uint8_t* src, float* dst) {
    const float d = load_f16(src);
    const uint8_t* q = src + 2;
#if defined(__AVX2__)
    const __m256 scale = _mm256_set1_ps(d);
    for (int k = 0; k < 4; ++k) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + 8 * k));
      const __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
      _mm256_storeu_ps(dst + 8 * k, _mm256_mul_ps(scale, x));
    }
#else
    for (int j = 0; j < 32; ++j) dst[j] = d * static_cast<float>(static_cast<int8_t>(q[j]));
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
