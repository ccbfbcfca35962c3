// bf16: y[i] = the float32 whose upper 16 bits are x[i] and whose lower bits are zero.
// A bit pattern is moved, never computed with, so subnormals and NaN payloads survive.
#pragma once

#include "retrograd/formats/half.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct bf16 {
  static constexpr int block_elements = 1, block_bytes = 2;

  static inline void decode(const uint8_t* src, float* dst) {
    const uint32_t bits = static_cast<uint32_t>(load_u16(src)) << 16;
    std::memcpy(dst, &bits, 4);
  }

  static inline void decode_run(const uint8_t* src, float* dst, int64_t n_elements) {
    int64_t i = 0;
#if defined(__AVX2__)
    for (; i + 8 <= n_elements; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 2 * i));
      const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), bits);
    }
#endif
    for (; i < n_elements; ++i) decode(src + 2 * i, dst + i);
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
