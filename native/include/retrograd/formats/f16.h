// f16: y[i] = x[i], widened exactly from IEEE binary16 (see half.h).
#pragma once

#include "retrograd/formats/half.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct f16 {
  static constexpr int block_elements = 1, block_bytes = 2;

  static inline void decode(const uint8_t* src, float* dst) { *dst = load_f16(src); }

  static inline void decode_run(const uint8_t* src, float* dst, int64_t n_elements) {
    int64_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
    for (; i + 8 <= n_elements; i += 8) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + 2 * i));
      _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(halves));
    }
#endif
    for (; i < n_elements; ++i) decode(src + 2 * i, dst + i);
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
