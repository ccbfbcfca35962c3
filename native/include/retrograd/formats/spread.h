// Steps shared by the block decoders: integers of 8 bits -> scaled f32.
//
// Every step is one IEEE multiply, or one multiply and one add or subtract, each rounded once
// (the build passes -ffp-contract=off), so the scalar and the AVX2 path give equal bits.
#pragma once

#include "retrograd/formats/half.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

#if defined(__AVX2__)

static inline __m256i load_256(const uint8_t* src) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src));
}

static inline __m128i load_128(const uint8_t* src) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src));
}

// 16 bytes of two nibbles -> 32 bytes: the low nibbles, then the high ones.
static inline __m256i nibbles_32(const uint8_t* src) {
  const __m128i raw = load_128(src);
  const __m256i both = _mm256_set_m128i(_mm_srli_epi16(raw, 4), raw);
  return _mm256_and_si256(both, _mm256_set1_epi8(0x0f));
}

// 32 bits -> 32 bytes: byte i is `value` where bit i is set, else 0.
static inline __m256i bits_to_bytes(uint32_t bits, char value) {
  const __m256i which = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202,
                                          0x0101010101010101, 0x0000000000000000);
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), which);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask);
  return _mm256_and_si256(set, _mm256_set1_epi8(value));
}

// Byte i of the result holds bits [shift, shift + 8) of byte i; the mask drops the neighbour's
// bits.
static inline __m256i shift_bytes(__m256i bytes, int shift, char mask) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, shift), _mm256_set1_epi8(mask));
}

struct floats_32 {
  __m256 part[4];
};

static inline floats_32 widen_unsigned(__m256i q) {
  const __m128i low = _mm256_castsi256_si128(q);
  const __m128i high = _mm256_extracti128_si256(q, 1);
  return {{_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low)),
           _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8))),
           _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high)),
           _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(high, 8)))}};
}

static inline floats_32 widen_signed(__m256i q) {
  const __m128i low = _mm256_castsi256_si128(q);
  const __m128i high = _mm256_extracti128_si256(q, 1);
  return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8))),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)),
           _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8)))}};
}

#endif

}  // namespace RETRO_VARIANT
}  // namespace retrograd
