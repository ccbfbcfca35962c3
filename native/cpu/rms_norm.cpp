// rms_norm forward.   y[t,c] = x[t,c] w[c] r[t],  r[t] = 1/sqrt(mean_c x[t,c]^2 + eps)
// rms_norm backward.  dx = r (w dy) - x (r^3/C) sum_c(w dy x) [+ c];  dw[c] = sum_t dy x r [+ c]
// x, y, dy, dx: (T, C) f32.  w, dw: (C).  r: (T), saved for backward.
// Sums over C: f32, 16 strided partial sums (j, j+16, ...), then a tree 8, 4, 2, 1.
// Sum over T for dw: f32 over blocks of 64 rows in row order, then the blocks in order.
// Contract: bounded.
#include "retrograd/ops/rms_norm.h"

#include <cmath>

#include "softmax.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kRows = 16;        // rows a task takes
static constexpr int64_t kWeightRows = 64;  // rows a partial sum of dw covers

RETRO_KERNEL(rms_norm_forward_f32_cpu, RmsNormForward) {
  const float eps = stream.fault("drop_eps") ? 0.0f : a.eps;
  stream.parallel(tile_count(a.T, kRows), [&](int64_t tile, int) {
    const int64_t end = tile * kRows + kRows < a.T ? tile * kRows + kRows : a.T;
    for (int64_t t = tile * kRows; t < end; ++t) {
      const float* x = a.x + t * a.C;
      const float mean_square =
          row_sum(a.C, [&](int64_t c) { return x[c] * x[c]; }) / static_cast<float>(a.C);
      const float r = 1.0f / std::sqrt(mean_square + eps);
      float* y = a.y + t * a.C;
      for (int64_t c = 0; c < a.C; ++c) y[c] = x[c] * r * a.w[c];
      a.r[t] = r;
    }
  });
  return ok();
}

RETRO_KERNEL(rms_norm_backward_f32_cpu, RmsNormBackward) {
  const bool faulty = stream.fault("drop_projection");
  stream.parallel(tile_count(a.T, kRows), [&](int64_t tile, int) {
    const int64_t end = tile * kRows + kRows < a.T ? tile * kRows + kRows : a.T;
    for (int64_t t = tile * kRows; t < end; ++t) {
      const float* x = a.x + t * a.C;
      const float* dy = a.dy + t * a.C;
      const float r = a.r[t];
      const float projection = row_sum(a.C, [&](int64_t c) { return a.w[c] * dy[c] * x[c]; });
      const float k = faulty ? 0.0f : projection * (r * r * r / static_cast<float>(a.C));
      float* dx = a.dx + t * a.C;
      if (a.c != nullptr) {
        const float* c_row = a.c + t * a.C;
        for (int64_t c = 0; c < a.C; ++c) dx[c] = c_row[c] + (r * (a.w[c] * dy[c]) - x[c] * k);
      } else {
        for (int64_t c = 0; c < a.C; ++c) dx[c] = r * (a.w[c] * dy[c]) - x[c] * k;
      }
    }
  });
  return ok();
}

RETRO_KERNEL(rms_norm_backward_weight_f32_cpu, RmsNormBackwardWeight) {
  const int64_t blocks = tile_count(a.T, kWeightRows);
  const bool faulty = stream.fault("drop_last_block");
  stream.parallel(blocks, [&](int64_t block, int) {
    float* partial = a.scratch + block * a.C;
    for (int64_t c = 0; c < a.C; ++c) partial[c] = 0.0f;
    const int64_t end = (block + 1) * kWeightRows < a.T ? (block + 1) * kWeightRows : a.T;
    for (int64_t t = block * kWeightRows; t < end; ++t)
      for (int64_t c = 0; c < a.C; ++c) partial[c] += a.dy[t * a.C + c] * a.x[t * a.C + c] * a.r[t];
  });
  for (int64_t c = 0; c < a.C; ++c) {
    float sum = a.c != nullptr ? a.c[c] : 0.0f;
    for (int64_t block = 0; block < blocks - (faulty ? 1 : 0); ++block)
      sum += a.scratch[block * a.C + c];
    a.dw[c] = sum;
  }
  return ok();
}

RETRO_END_VARIANT
