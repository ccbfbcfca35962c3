// decode_row<F>: storage format F -> f32, equal bit for bit to gguf-py's numpy decoders
// (NaN payloads free). One header per format holds its layout and its `decode` of one block.
//
// src: n_elements / F::block_elements blocks of F::block_bytes bytes, any alignment; no byte
//      beyond the last block is read. dst: n_elements f32, any alignment.
// n_elements must be a multiple of F::block_elements (the caller validates shapes on opening).
#pragma once

#include "retrograd/formats/bf16.h"
#include "retrograd/formats/f16.h"
#include "retrograd/formats/f32.h"
#include "retrograd/formats/q2_k.h"
#include "retrograd/formats/q3_k.h"
#include "retrograd/formats/q4_0.h"
#include "retrograd/formats/q4_1.h"
#include "retrograd/formats/q4_k.h"
#include "retrograd/formats/q5_0.h"
#include "retrograd/formats/q5_1.h"
#include "retrograd/formats/q5_k.h"
#include "retrograd/formats/q6_k.h"
#include "retrograd/formats/q8_0.h"

namespace retrograd {
inline namespace RETRO_VARIANT {

template <typename F>
static inline void decode_row(const uint8_t* src, float* dst, int64_t n_elements) {
  if constexpr (F::block_elements == 1) {
    F::decode_run(src, dst, n_elements);
  } else {
    const int64_t n_blocks = n_elements / F::block_elements;
    for (int64_t i = 0; i < n_blocks; ++i) {
      F::decode(src + i * F::block_bytes, dst + i * F::block_elements);
    }
  }
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
