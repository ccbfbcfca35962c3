// matmul forward.          y  = alpha x w^T [+ c]    x (T, K), w (N, K) stored, y, c (T, N)
// matmul backward.         dx = alpha dy w [+ c]     dx, c (T, K)
// matmul backward_weight.  dw = alpha dy^T x [+ c]   dw, c (N, K) f32
// Accumulation: f32 inside BLAS, over the whole inner dimension of a tile. A stored weight is
// dequantized in slabs of whole rows (ops/matmul.py: SLAB_ELEMENTS); backward adds the slabs in
// row order. Grid and slabs follow from the shape.
// Contract: bounded.
#include "retrograd/ops/matmul.h"

#include <type_traits>

#include "gemm.h"
#include "retrograd/formats/all.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kSlabElements = int64_t{1} << 20;
static constexpr int64_t kDequantizeElements = 16384;  // least work a task takes

static int64_t slab_rows(int64_t columns) {
  const int64_t rows = kSlabElements / (columns > 0 ? columns : 1);
  return rows > 0 ? rows : 1;
}

// Rows [first, first + rows) of w in f32: in place for f32, otherwise dequantized into scratch.
template <class Format>
static const float* slab(Stream& stream, const uint8_t* w, float* scratch, int64_t first,
                         int64_t rows, int64_t columns) {
  const int64_t row_bytes = columns / Format::block_elements * Format::block_bytes;
  if constexpr (std::is_same_v<Format, f32>) {
    return reinterpret_cast<const float*>(w + first * row_bytes);
  } else {
    const int64_t step = kDequantizeElements / (columns > 0 ? columns : 1) + 1;
    stream.parallel(tile_count(rows, step), [&](int64_t task, int) {
      const int64_t end = (task + 1) * step < rows ? (task + 1) * step : rows;
      for (int64_t r = task * step; r < end; ++r)
        decode_row<Format>(w + (first + r) * row_bytes, scratch + r * columns, columns);
    });
    return scratch;
  }
}

template <class Format>
static RetroStatus forward(const MatmulForward& a, Stream& stream) {
  if (a.K % Format::block_elements != 0)
    return invalid("the inner dimension holds whole blocks of the format");
  const int64_t step = std::is_same_v<Format, f32> ? a.N : slab_rows(a.K);
  const float alpha = stream.fault("drop_alpha") ? 1.0f : a.alpha;
  for (int64_t n = 0; n < a.N; n += step) {
    const int64_t rows = a.N - n < step ? a.N - n : step;
    const float* w = slab<Format>(stream, a.w, a.scratch, n, rows, a.K);
    const int64_t inner = stream.fault("short_inner") && a.K > 0 ? a.K - 1 : a.K;
    product(stream, {a.x, a.K, Transpose::no}, {w, a.K, Transpose::yes}, a.T, rows, inner, alpha,
            a.c == nullptr ? nullptr : a.c + n, a.y + n, a.N);
  }
  return ok();
}

template <class Format>
static RetroStatus backward(const MatmulBackward& a, Stream& stream) {
  if (a.K % Format::block_elements != 0)
    return invalid("the inner dimension holds whole blocks of the format");
  const int64_t step = std::is_same_v<Format, f32> ? (a.N > 0 ? a.N : 1) : slab_rows(a.K);
  const float* c = stream.fault("drop_addend") ? nullptr : a.c;
  // One pass even when N is 0: dx is then c or zero.
  for (int64_t n = 0; n < a.N || n == 0; n += step) {
    int64_t rows = a.N - n < step ? a.N - n : step;
    const float* w = slab<Format>(stream, a.w, a.scratch, n, rows, a.K);
    if (stream.fault("short_inner") && n + rows == a.N && rows > 0) rows -= 1;
    product(stream, {a.dy + n, a.N, Transpose::no}, {w, a.K, Transpose::no}, a.T, a.K, rows,
            a.alpha, n == 0 ? c : a.dx, a.dx, a.K);
  }
  return ok();
}

#define RETRO_INSTANCE(name, Format)                           \
  RETRO_KERNEL(matmul_forward_##name##_cpu, MatmulForward) {   \
    return forward<Format>(a, stream);                         \
  }                                                            \
  RETRO_KERNEL(matmul_backward_##name##_cpu, MatmulBackward) { \
    return backward<Format>(a, stream);                        \
  }
RETRO_FOR_EACH_FORMAT(RETRO_INSTANCE)

RETRO_KERNEL(matmul_backward_weight_f32_cpu, MatmulBackwardWeight) {
  const int64_t tokens = stream.fault("drop_last_token") && a.T > 0 ? a.T - 1 : a.T;
  product(stream, {a.dy, a.N, Transpose::yes}, {a.x, a.K, Transpose::no}, a.N, a.K, tokens, a.alpha,
          a.c, a.dw, a.K);
  return ok();
}

RETRO_END_VARIANT
