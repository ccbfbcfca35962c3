// f32: y[i] = x[i]. Stored as IEEE binary32, little-endian; copied bit for bit.
#pragma once

#include "retrograd/formats/half.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

struct f32 {
  static constexpr int block_elements = 1, block_bytes = 4;

  static inline void decode(const uint8_t* src, float* dst) { std::memcpy(dst, src, 4); }

  static inline void decode_run(const uint8_t* src, float* dst, int64_t n_elements) {
    std::memcpy(dst, src, static_cast<size_t>(n_elements) * 4);
  }
};

}  // namespace RETRO_VARIANT
}  // namespace retrograd
