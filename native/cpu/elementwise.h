// Loops of element-wise kernels: fixed chunks shared by the workers, a plain loop inside a chunk.
#pragma once

#include "stream.h"

// The iterations of the next loop are independent, also where an output is one of the inputs' own
// buffers: without this the compiler falls back to scalar code in place.
#if defined(__clang__)
#define RETRO_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define RETRO_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace retrograd {
inline namespace RETRO_VARIANT {

static constexpr int64_t kChunk = 16384;  // elements a task takes

static inline int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// body(i) for each element i < n. `body` is copied, so that its captured scalars stay in registers.
template <class F>
static inline void for_each_element(Stream& stream, int64_t n, F body) {
  stream.parallel(tile_count(n, kChunk), [&](int64_t tile, int) {
    const F local = body;
    const int64_t end = least((tile + 1) * kChunk, n);
    RETRO_INDEPENDENT
    for (int64_t i = tile * kChunk; i < end; ++i) local(i);
  });
}

// body(t) for each of T rows of C elements, in tiles of about a chunk.
template <class F>
static inline void for_each_row(Stream& stream, int64_t T, int64_t C, F body) {
  const int64_t rows = C < kChunk / 2 && C > 0 ? kChunk / C : 1;
  stream.parallel(tile_count(T, rows), [&](int64_t tile, int) {
    const int64_t end = least((tile + 1) * rows, T);
    for (int64_t t = tile * rows; t < end; ++t) body(t);
  });
}

}  // namespace RETRO_VARIANT
}  // namespace retrograd
