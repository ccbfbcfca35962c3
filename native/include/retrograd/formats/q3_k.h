// q3_k: y = (d * s[b]) * q, q in -4..3, s in -32..31. 256 elements in 110 bytes.
// Block: 32 bytes of high bits | 64 bytes of low pairs | 12 bytes of scales | d f16.
// Element 128 h + 32 p + j is bits [2p, 2p + 2) of low byte 32 h + j, less 4 where bit 4 h + p of
// high byte j is clear. Scale b (one per 16 elements) is 6 bits, less 32: its low nibble is in
// byte b % 8 (low half for b < 8), its high pair in byte 8 + b % 4 at bit 2 (b / 4).
// The scale is an exact product; then one multiply, rounded once.
#pragma once

#include "retrograd/formats/spread.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct q3_k {
  static constexpr int block_elements = 256, block_bytes = 110;

  static inline void unpack_scales(const uint8_t* packed, uint8_t* scales) {
    const uint32_t low[2] = {load_u32(packed), load_u32(packed + 4)};
    const uint32_t high = load_u32(packed + 8);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t nibbles = (low[i & 1u] >> (4 * (i >> 1))) & 0x0f0f0f0fu;
      const uint32_t word = nibbles | (((high >> (2 * i)) & 0x03030303u) << 4);
      std::memcpy(scales + 4 * i, &word, 4);
    }
  }

  static inline void decode(const uint8_t* src, float* dst) {
    const uint8_t* q = src + 32;
    const float d = load_f16(src + 108);
    uint8_t packed[16];
    unpack_scales(src + 96, packed);
    float scale[16];
    for (int b = 0; b < 16; ++b) scale[b] = d * static_cast<float>(packed[b] - 32);
#if defined(__AVX2__)
    const __m256i high = load_256(src);
    for (int h = 0; h < 2; ++h) {
      const __m256i low = load_256(q + 32 * h);
      for (int p = 0; p < 4; ++p, dst += 32) {
        const __m256i bit = _mm256_set1_epi8(static_cast<char>(1u << (4 * h + p)));
        const __m256i clear =
            _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), _mm256_setzero_si256());
        const __m256i four = _mm256_and_si256(clear, _mm256_set1_epi8(4));
        const floats_32 x = widen_signed(_mm256_sub_epi8(shift_bytes(low, 2 * p, 3), four));
        for (int k = 0; k < 4; ++k) {
          const __m256 s = _mm256_set1_ps(scale[8 * h + 2 * p + k / 2]);
          _mm256_storeu_ps(dst + 8 * k, _mm256_mul_ps(s, x.part[k]));
        }
      }
    }
#else
    for (int h = 0; h < 2; ++h) {
      for (int p = 0; p < 4; ++p, dst += 32) {
        for (int j = 0; j < 32; ++j) {
          const int low = (q[32 * h + j] >> (2 * p)) & 3;
          const int four = ((src[j] >> (4 * h + p)) & 1) != 0 ? 0 : 4;
          dst[j] = scale[8 * h + 2 * p + j / 16] * static_cast<float>(low - four);
        }
      }
    }
#endif
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
