// exp, log, logistic and SiLU in float32 for pinned rows.
//
// Every backend replays these operations one by one: IEEE +, -, *, / with one rounding each, 32-bit
// integer operations, and selects on bit patterns. No fma, no library function, no comparison of
// float values (a device may read a subnormal as zero in one). Branch-free, so that a loop over
// them vectorises. Coefficients are minimax fits weighted by the result's size, rounded to float32
// one after the other.
//
// Special values: a NaN gives a quiet NaN; exp(-inf) = 0, exp(inf) = inf; log(+-0) = -inf,
// log(inf) = inf, log of a negative number is NaN; silu(-inf) = -0, silu(inf) = inf. Subnormals
// need no case of their own except as the input of log.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define RETRO_HOST_DEVICE __host__ __device__
#else
#define RETRO_HOST_DEVICE
#endif

namespace retrograd {
inline namespace RETRO_VARIANT {

RETRO_HOST_DEVICE static inline int32_t as_bits(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

RETRO_HOST_DEVICE static inline float as_float(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static constexpr int32_t kMagnitude = 0x7fffffff;  // all bits but the sign
static constexpr int32_t kInfinity = 0x7f800000;
static constexpr int32_t kQuiet = 0x00400000;  // the bit that makes a NaN quiet

// exp and silu have reached their limits at +-110: e^110 overflows, 110 e^-110 rounds to zero.
static constexpr int32_t kExpReach = 0x42dc0000;

// ln 2 = high + low. high has 16 significant bits, so k high is exact for |k| < 256.
static constexpr float kLn2High = 0x1.62e4p-1f;
static constexpr float kLn2Low = 0x1.7f7d1cp-20f;

RETRO_HOST_DEVICE static inline int32_t magnitude_bits(float x) {
  return as_bits(x) & kMagnitude;
}

// |x| as bits, no larger than the reach of exp. A NaN becomes 110; the caller puts it back.
RETRO_HOST_DEVICE static inline int32_t reach_bits(int32_t magnitude) {
  return magnitude < kExpReach ? magnitude : kExpReach;
}

// `value`, or `x` made quiet when x is a NaN.
RETRO_HOST_DEVICE static inline float or_nan(float value, float x) {
  return as_float(magnitude_bits(x) > kInfinity ? as_bits(x) | kQuiet : as_bits(value));
}

// e^x = significand * first * second: significand in (0.7, 1.42), both factors powers of two.
// Multiplied in this order the first product is exact and the second rounds once, also into the
// subnormals.
struct ExpParts {
  float significand, first, second;
};

// |x| <= 110. x = k ln 2 + r + c, |r| <= ln 2 / 2, c what rounding dropped from r:
// e^r = 1 + r + (c + r^2 P(r)), with 1 + r split into a rounded sum and its rest.
RETRO_HOST_DEVICE static inline ExpParts exp_parts(float x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * kLog2E + kRound;
  const int32_t k = as_bits(shifted) - as_bits(kRound);
  const float whole = shifted - kRound;

  const float high = x - whole * kLn2High;  // exact
  const float low = whole * kLn2Low;
  const float r = high - low;
  const float c = (high - r) - low;

  const float r2 = r * r;
  const float p5 = 0x1.9e1b5ap-13f * r + 0x1.6d4f3cp-10f;
  const float p3 = 0x1.1113p-7f * r + 0x1.5554e6p-5f;
  const float p1 = 0x1.555554p-3f * r + 0.5f;
  const float p = (p5 * r2 + p3) * r2 + p1;

  const float sum = 1.0f + r;
  const float rest = r - (sum - 1.0f);
  const float significand = sum + (rest + (c + r2 * p));

  const int32_t half = k >> 1;
  return {significand, as_float((half + 127) << 23), as_float((k - half + 127) << 23)};
}

RETRO_HOST_DEVICE static inline float exp_f32(float x) {
  const int32_t sign = as_bits(x) & ~kMagnitude;
  const ExpParts e = exp_parts(as_float(reach_bits(magnitude_bits(x)) | sign));
  return or_nan(e.significand * e.first * e.second, x);
}

// x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)): log x = k ln 2 + f - f^2/2 + f^3 Q(f).
// The two leading sums carry their rests along; f^2 is split so that its leading part h^2 is exact.
RETRO_HOST_DEVICE static inline float log_f32(float x) {
  constexpr uint32_t kSqrtHalf = 0x3f3504f3u;
  const int32_t bits = as_bits(x);
  // A subnormal is an integer times 2^-149; the integer is a normal float.
  const bool tiny = bits < 0x00800000;
  const uint32_t normal = static_cast<uint32_t>(tiny ? as_bits(static_cast<float>(bits)) : bits);
  const uint32_t offset = normal - kSqrtHalf;
  const int32_t k = (static_cast<int32_t>(offset) >> 23) + (tiny ? -149 : 0);
  const float f = as_float(static_cast<int32_t>((offset & 0x007fffffu) + kSqrtHalf)) - 1.0f;

  const float h = as_float(as_bits(f) & ~0xfff);
  const float square_high = 0.5f * (h * h);
  const float square_low = 0.5f * ((f - h) * (f + h));
  const float a = f - square_high;
  const float a_rest = (f - a) - square_high;
  const float whole = static_cast<float>(k) * kLn2High;  // exact
  const float sum = whole + a;
  const float sum_rest = (whole - sum) + a;

  const float f2 = f * f;
  const float f4 = f2 * f2;
  const float q9 = -0x1.e2d518p-5f * f + 0x1.afefd2p-4f;
  const float q7 = -0x1.bb0c06p-4f * f + 0x1.c4d882p-4f;
  const float q5 = -0x1.fd071p-4f * f + 0x1.248676p-3f;
  const float q3 = -0x1.556256p-3f * f + 0x1.999a6ap-3f;
  const float q1 = -0x1.ffffdcp-3f * f + 0x1.555554p-2f;
  const float q = (q9 * f4 + (q7 * f2 + q5)) * f4 + (q3 * f2 + q1);

  const float cubic = f2 * f * q;
  const float tail = (cubic - square_low) + static_cast<float>(k) * kLn2Low;
  int32_t result = as_bits(sum + (sum_rest + (a_rest + tail)));
  result = bits == kInfinity ? kInfinity : result;
  result = bits < 0 ? kInfinity | kQuiet : result;
  result = (bits & kMagnitude) == 0 ? ~kMagnitude | kInfinity : result;
  return or_nan(as_float(result), x);
}

// 1/(1 + e^-x), from z = e^-|x| so that nothing overflows: 1/(1 + z) for x >= 0, z/(1 + z) below.
RETRO_HOST_DEVICE static inline float logistic_f32(float x) {
  const ExpParts e = exp_parts(as_float(reach_bits(magnitude_bits(x)) | ~kMagnitude));
  const float z = e.significand * e.first * e.second;
  const float r = 1.0f / (1.0f + z);
  const float small = z * r;
  return or_nan(as_float(as_bits(x) < 0 ? as_bits(small) : as_bits(r)), x);
}

// silu(x) = x s(x) and its derivative s(x) (1 + x (1 - s(x))), s the logistic function.
struct Silu {
  float value, slope;
};

// With a = min(|x|, 110), z = e^-a, r = 1/(1 + z):
//   x >= 0:  value = x r               slope = r (1 + a (z r))
//   x < 0:   value = ((-a z1) r) z2    slope = ((z1 r) (1 - a r)) z2,  z = z1 z2
// z2 is a power of two and comes last: z alone would lose its digits as a subnormal before a
// product brings it back.
RETRO_HOST_DEVICE static inline Silu silu_f32(float x) {
  const bool negative = as_bits(x) < 0;
  const float a = as_float(reach_bits(magnitude_bits(x)));
  const ExpParts e = exp_parts(-a);
  const float z1 = e.significand * e.first;
  const float z = z1 * e.second;
  const float r = 1.0f / (1.0f + z);
  const float last = as_float(negative ? as_bits(e.second) : as_bits(1.0f));

  const float below = -a * z1;
  const float value = as_float(negative ? as_bits(below) : as_bits(x)) * r * last;

  const float z1_r = z1 * r;
  const float front = as_float(negative ? as_bits(z1_r) : as_bits(r));
  const float minus = -(a * r);
  const float plus = a * (z * r);
  const float inner = as_float(negative ? as_bits(minus) : as_bits(plus));
  const float slope = front * (1.0f + inner) * last;
  return {or_nan(value, x), or_nan(slope, x)};
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
