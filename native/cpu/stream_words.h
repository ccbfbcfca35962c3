// Words of a random stream in runs: `draw_words` writes kDrawWords words from a block on.
// The AVX2 path computes the integers of philox.h; the compiler does not find it by itself.
#pragma once

#include "retrograd/philox.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace retrograd {
inline namespace RETRO_VARIANT {

static constexpr int64_t kDrawBlocks = 64;
static constexpr int64_t kDrawWords = 4 * kDrawBlocks;

#if defined(__AVX2__)

// Four blocks at once, one in each 64-bit lane. A product reads the low halves of its lanes only,
// so what the xors leave in the high halves does no harm.
static inline void four_blocks(const PhiloxStream& stream, uint64_t first_block, uint32_t* words) {
  const __m256i index = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(first_block)),
                                         _mm256_set_epi64x(3, 2, 1, 0));
  const __m256i purpose = _mm256_set1_epi64x(static_cast<int64_t>(stream.purpose));
  __m256i c0 = index;
  __m256i c1 = _mm256_or_si256(_mm256_slli_epi64(_mm256_srli_epi64(index, 32), 8), purpose);
  __m256i c2 = _mm256_set1_epi64x(stream.step);
  __m256i c3 = _mm256_set1_epi64x(stream.tensor);
  uint32_t k0 = static_cast<uint32_t>(stream.seed);
  uint32_t k1 = static_cast<uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i even = _mm256_mul_epu32(c0, _mm256_set1_epi64x(0xd2511f53));
    const __m256i odd = _mm256_mul_epu32(c2, _mm256_set1_epi64x(0xcd9e8d57));
    const __m256i key0 = _mm256_set1_epi64x(k0);
    const __m256i key1 = _mm256_set1_epi64x(k1);
    c0 = _mm256_xor_si256(_mm256_srli_epi64(odd, 32), _mm256_xor_si256(c1, key0));
    c2 = _mm256_xor_si256(_mm256_srli_epi64(even, 32), _mm256_xor_si256(c3, key1));
    c1 = odd;
    c3 = even;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  const __m256i front = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xaa);
  const __m256i back = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xaa);
  const __m256i blocks_02 = _mm256_unpacklo_epi64(front, back);
  const __m256i blocks_13 = _mm256_unpackhi_epi64(front, back);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words),
                      _mm256_permute2x128_si256(blocks_02, blocks_13, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8),
                      _mm256_permute2x128_si256(blocks_02, blocks_13, 0x31));
}

#endif

static inline void draw_words(const PhiloxStream& stream, uint64_t first_block, uint32_t* words) {
#if defined(__AVX2__)
  for (int64_t i = 0; i < kDrawBlocks; i += 4)
    four_blocks(stream, first_block + static_cast<uint64_t>(i), words + 4 * i);
#else
  for (int64_t i = 0; i < kDrawBlocks; ++i) {
    const PhiloxBlock block = stream_block(stream, first_block + static_cast<uint64_t>(i));
    words[4 * i] = block.w0;
    words[4 * i + 1] = block.w1;
    words[4 * i + 2] = block.w2;
    words[4 * i + 3] = block.w3;
  }
#endif
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
