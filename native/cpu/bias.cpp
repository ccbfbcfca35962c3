// bias forward.          y[t,c] = x[t,c] + b[c]
// bias backward_weight.  db[c] = sum_t dy[t,c] [+ c[c]]
// x, y, dy: (T, C) f32, y may be x.  b, db, c: (C), db may be c.
// scratch: ceil(T/64) rows of C f32.
// Sum over T: f32, blocks of 64 rows in row order from 0, then c (or 0) plus the blocks in order.
// Contract: pinned.
#include "retrograd/ops/bias.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kBlockRows = 64;  // rows a partial sum covers
static constexpr int64_t kColumns = 1024;  // columns of db a task takes

RETRO_KERNEL(bias_forward_f32_cpu, BiasForward) {
  if (a.C < 1) return ok();
  const bool faulty = stream.fault("wrap_last_column");
  for_each_row(stream, a.T, a.C, [&](int64_t t) {
    const float* x = a.x + t * a.C;
    const float* b = a.b;
    float* y = a.y + t * a.C;
    const int64_t last = a.C - 1;
    const float x_last = x[last];
    RETRO_INDEPENDENT
    for (int64_t c = 0; c <= last; ++c) y[c] = x[c] + b[c];
    if (faulty) y[last] = x_last + b[0];
  });
  return ok();
}

RETRO_KERNEL(bias_backward_weight_f32_cpu, BiasBackwardWeight) {
  const int64_t C = a.C;
  const int64_t blocks = tile_count(a.T, kBlockRows);
  stream.parallel(blocks, [&](int64_t block, int) {
    float* partial = a.scratch + block * C;
    for (int64_t c = 0; c < C; ++c) partial[c] = 0.0f;
    const int64_t end = least((block + 1) * kBlockRows, a.T);
    for (int64_t t = block * kBlockRows; t < end; ++t) {
      const float* dy = a.dy + t * C;
      RETRO_INDEPENDENT
      for (int64_t c = 0; c < C; ++c) partial[c] += dy[c];
    }
  });
  const int64_t summed = stream.fault("drop_last_block") ? blocks - 1 : blocks;
  stream.parallel(tile_count(C, kColumns), [&](int64_t tile, int) {
    const int64_t begin = tile * kColumns, end = least(begin + kColumns, C);
    float* db = a.db;
    if (a.c != db)
      for (int64_t c = begin; c < end; ++c) db[c] = a.c != nullptr ? a.c[c] : 0.0f;
    for (int64_t block = 0; block < summed; ++block) {
      const float* partial = a.scratch + block * C;
      RETRO_INDEPENDENT
      for (int64_t c = begin; c < end; ++c) db[c] += partial[c];
    }
  });
  return ok();
}

RETRO_END_VARIANT
