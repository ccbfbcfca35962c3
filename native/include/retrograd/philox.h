// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and the
// layout of a run's streams.
//
// A stream is addressed, never advanced: element i takes word i % 4 of block i / 4, where
//   c0 = block index, low 32 bits         c1 = block index, next 24 bits << 8 | purpose
//   c2 = optimizer step                   c3 = tensor word
// are the counter of a block. The key is the run seed, low half first.
// Integer arithmetic only: the same words on every backend.
#pragma once

#include <cstdint>

#if !defined(RETRO_HOST_DEVICE)
#if defined(__CUDACC__)
#define RETRO_HOST_DEVICE __host__ __device__
#else
#define RETRO_HOST_DEVICE
#endif
#endif

namespace retrograd {
inline namespace RETRO_VARIANT {

// What a stream is drawn for: the low 8 bits of c1.
enum class Purpose : uint32_t { rounding = 0, dropout = 1, sampling = 2, shuffle = 3, init = 4 };

struct PhiloxBlock {
  uint32_t w0, w1, w2, w3;
};

// Ten rounds on counter c with key (k0, k1).
RETRO_HOST_DEVICE static inline constexpr PhiloxBlock philox4x32(PhiloxBlock c, uint32_t k0,
                                                                 uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = static_cast<uint64_t>(c.w0) * 0xd2511f53u;
    const uint64_t odd = static_cast<uint64_t>(c.w2) * 0xcd9e8d57u;
    c = {static_cast<uint32_t>(odd >> 32) ^ c.w1 ^ k0, static_cast<uint32_t>(odd),
         static_cast<uint32_t>(even >> 32) ^ c.w3 ^ k1, static_cast<uint32_t>(even)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

constexpr bool operator==(const PhiloxBlock& a, const PhiloxBlock& b) {
  return a.w0 == b.w0 && a.w1 == b.w1 && a.w2 == b.w2 && a.w3 == b.w3;
}

// The known answers that the authors publish with their library (Random123, kat_vectors, philox4x32
// with 10 rounds).
static_assert(philox4x32({0, 0, 0, 0}, 0, 0) ==
              PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
static_assert(philox4x32({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u) ==
              PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
static_assert(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u,
                         0x299f31d0u) ==
              PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});

struct PhiloxStream {
  uint64_t seed;
  Purpose purpose;
  uint32_t step, tensor;
};

RETRO_HOST_DEVICE static inline PhiloxBlock stream_block(const PhiloxStream& stream,
                                                         uint64_t block) {
  const PhiloxBlock counter = {
      static_cast<uint32_t>(block),
      static_cast<uint32_t>(block >> 32) << 8 | static_cast<uint32_t>(stream.purpose), stream.step,
      stream.tensor};
  return philox4x32(counter, static_cast<uint32_t>(stream.seed),
                    static_cast<uint32_t>(stream.seed >> 32));
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
