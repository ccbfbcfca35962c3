// sum_squares forward.  sums[k] = sum of g[i]^2 over elements 4096 k to 4096 k + 4095 of n
// g: n f32.  sums: ceil(n/4096) float64. A square of a float32 is exact in float64.
// Sum: float64, 32 strided partial sums (j, j + 32, ...) each in order, then a tree 16, 8, 4, 2, 1.
// Contract: pinned.
#include "retrograd/ops/sum_squares.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kSumChunk = 4096;
static constexpr int kPartials = 32;

template <class Square>
static double chunk_sum(const float* g, int64_t n, Square square) {
  double partial[kPartials] = {};
  int64_t i = 0;
  for (; i + kPartials <= n; i += kPartials)
    for (int j = 0; j < kPartials; ++j) partial[j] += square(g[i + j]);
  for (int j = 0; i + j < n; ++j) partial[j] += square(g[i + j]);
  for (int width = kPartials / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) partial[j] += partial[j + width];
  return partial[0];
}

RETRO_KERNEL(sum_squares_forward_f32_cpu, SumSquaresForward) {
  const bool faulty = stream.fault("square_in_f32");
  stream.parallel(tile_count(a.n, kSumChunk), [&](int64_t chunk, int) {
    const float* g = a.g + chunk * kSumChunk;
    const int64_t n = least(kSumChunk, a.n - chunk * kSumChunk);
    a.sums[chunk] = faulty ? chunk_sum(g, n, [](float x) { return static_cast<double>(x * x); })
                           : chunk_sum(g, n, [](double x) { return x * x; });
  });
  return ok();
}

RETRO_END_VARIANT
