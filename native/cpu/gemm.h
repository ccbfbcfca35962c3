// Row-major products over a tile grid that the shape alone fixes; a tile is one BLAS call on one
// thread. A threaded BLAS call gives other bits for another thread count: here threads only choose
// who computes a tile.
#pragma once

#include <cstring>

#include "stream.h"

RETRO_BEGIN_VARIANT

enum class Transpose : int { no = 111, yes = 112 };

// Tile of the output that one worker computes. Wide tiles spare BLAS from packing an operand again;
// narrower ones are taken until a product has a few tiles to share. A product of few columns gets
// short tiles, which BLAS handles without packing. All of it follows from the shape alone.
struct Tile {
  int64_t rows, columns;
};

constexpr int64_t kFewTiles = 4;

static inline Tile tile_of(int64_t m, int64_t n) {
  const int64_t rows = n < 64 ? 128 : 256;
  int64_t columns = 576;
  while (columns > 192 && tile_count(m, rows) * tile_count(n, columns) < kFewTiles) columns /= 2;
  return {rows, columns < 192 ? 192 : columns};
}

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
  const Tile size = tile_of(m, n);
  const int64_t row_tiles = tile_count(m, size.rows);
  const int64_t column_tiles = tile_count(n, size.columns);
  stream.parallel(row_tiles * column_tiles, [&](int64_t tile, int) {
    const int64_t i = tile / column_tiles * size.rows, j = tile % column_tiles * size.columns;
    const int64_t rows = m - i < size.rows ? m - i : size.rows;
    const int64_t columns = n - j < size.columns ? n - j : size.columns;
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
