// scatter_rows forward.  y[rows[t],:] = x[t,:];  a row outside [0, N) is padding and goes nowhere.
// x: (T, C) f32.  rows: (T), distinct.  y: (N, C) f32, other rows are left as they are.
// Contract: pinned; a copy.
#include "retrograd/ops/scatter_rows.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(scatter_rows_forward_f32_cpu, ScatterRowsForward) {
  const int64_t limit = stream.fault("miss_last_row") ? a.N - 1 : a.N;
  for_each_row(stream, a.T, a.C, [&](int64_t t) {
    const int64_t row = a.rows[t];
    if (row < 0 || row >= limit) return;
    std::memcpy(a.y + row * a.C, a.x + t * a.C, static_cast<size_t>(a.C) * sizeof(float));
  });
  return ok();
}

RETRO_END_VARIANT
