// Little-endian loads and the exact widening of 16-bit floats.
//
// f16_to_f32: every finite f16 value is a f32 value, so the result is exact; subnormals become
// normal f32 values, signs of zero and infinities are kept, a NaN stays a NaN (payload free).
// No floating-point environment matters: there is no rounding step.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif

#ifndef RETRO_VARIANT
#error "define RETRO_VARIANT (portable or avx2): these headers are compiled once per variant"
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF blocks are read in place: a little-endian host is required"
#endif

namespace retrograd {
inline namespace RETRO_VARIANT {

static inline uint16_t load_u16(const uint8_t* src) {
  uint16_t value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

static inline uint32_t load_u32(const uint8_t* src) {
  uint32_t value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

static inline float float_from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float f16_to_f32(uint16_t half) {
#if defined(__F16C__)
  return _cvtsh_ss(half);
#else
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return float_from_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x400u) {
    return float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  }
  // Subnormal: magnitude * 2^-24. Both factors and the product are exact f32 values.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return sign != 0 ? -value : value;
#endif
}

static inline float load_f16(const uint8_t* src) {
  return f16_to_f32(load_u16(src));
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
