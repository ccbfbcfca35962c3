// The 12 bytes of q4_k and q5_k that hold eight 6-bit scales s and eight 6-bit mins m.
//
// For b < 4: s[b] is the low 6 bits of byte b, m[b] the low 6 bits of byte b + 4.
// For b >= 4: s[b] is the low nibble of byte b + 4 under the top two bits of byte b - 4;
// m[b] is the high nibble of byte b + 4 under the top two bits of byte b.
// scale[b] = d * s[b] and min[b] = dmin * m[b] are exact in f32 (11 + 6 bits).
#pragma once

#include "retrograd/formats/half.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

static inline void decode_k_scales(const uint8_t* packed, float d, float dmin, float* scale,
                                   float* min) {
  const uint32_t a = load_u32(packed), b = load_u32(packed + 4), c = load_u32(packed + 8);
  const uint32_t words[4] = {a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u),
                             b & 0x3f3f3f3fu, ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u)};
#if defined(__AVX2__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
  const __m256 s = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  const __m256 m = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
  _mm256_storeu_ps(scale, _mm256_mul_ps(_mm256_set1_ps(d), s));
  _mm256_storeu_ps(min, _mm256_mul_ps(_mm256_set1_ps(dmin), m));
#else
  uint8_t bytes[16];
  std::memcpy(bytes, words, 16);
  for (int i = 0; i < 8; ++i) {
    scale[i] = d * static_cast<float>(bytes[i]);
    min[i] = dmin * static_cast<float>(bytes[8 + i]);
  }
#endif
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
