// Row-major products over a tile grid that the shape alone fixes;
// each tile is one one-threaded BLAS call.
//
// A threaded BLAS call gives other bits for another thread count.
// Here threads only choose who computes a tile.
#pragma once

#include <cstring>

#include "stream.h"

RETRO_BEGIN_VARIANT

enum class Transpose : int { no = 111, yes = 112 };

// Tile of the output that one worker computes.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 192;

struct Operand {
  const float* data;
  int64_t stride;  // elements between rows as stored
  Transpose transpose;

  // First element of the part that output row (or column) `i` needs.
  const float* left(int64_t i) const {
    return transpose == Transpose::no ? data + i * stride : data + i;
  }
  const float* right(int64_t j) const {
    return transpose == Transpose::no ? data + j : data + j * stride;
  }
};

static inline void sgemm(const Blas& blas, Operand a, Operand b, int64_t m, int64_t n, int64_t k,
                         float alpha, float beta, float* y, int64_t stride) {
  blas.sgemm(101, static_cast<int>(a.transpose), static_cast<int>(b.transpose), static_cast<int>(m),
             static_cast<int>(n), static_cast<int>(k), alpha, a.data, static_cast<int>(a.stride),
             b.data, static_cast<int>(b.stride), beta, y, static_cast<int>(stride));
}

// y[m,n] = alpha a b + c; c may be y itself, or null for nothing to add.
// Rows of y and c are `stride` apart.
static inline void product(Stream& stream, Operand a, Operand b, int64_t m, int64_t n, int64_t k,
                           float alpha, const float* c, float* y, int64_t stride) {
  const int64_t row_tiles = tile_count(m, kTileRows), column_tiles = tile_count(n, kTileColumns);
  stream.parallel(row_tiles * column_tiles, [&](int64_t tile, int) {
    const int64_t i = tile / column_tiles * kTileRows, j = tile % column_tiles * kTileColumns;
    const int64_t rows = m - i < kTileRows ? m - i : kTileRows;
    const int64_t columns = n - j < kTileColumns ? n - j : kTileColumns;
    float* out = y + i * stride + j;
    if (c == nullptr && k == 0) {
      for (int64_t r = 0; r < rows; ++r) std::memset(out + r * stride, 0, columns * sizeof(float));
      return;
    }
    if (c != nullptr && c != y) {
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(out + r * stride, c + (i + r) * stride + j, columns * sizeof(float));
    }
    if (k == 0) return;
    const Operand a_tile = {a.left(i), a.stride, a.transpose},
                  b_tile = {b.right(j), b.stride, b.transpose};
    sgemm(stream.blas, a_tile, b_tile, rows, columns, k, alpha, c == nullptr ? 0.0f : 1.0f, out,
          stride);
  });
}

RETRO_END_VARIANT
