// clip forward.  norm = sqrt(total);  scale = min(1, max_norm / max(norm, 1e-12)), rounded once
// sums, scratch: n float64.  norm: float64.  scale: f32, 1 where max_norm <= 0.
// total: float64, neighbours added pairwise, an odd last one passes up, until one is left.
// n = 0 gives a total of 0. A NaN norm gives a NaN scale: whoever steps looks at the norm first.
// Contract: pinned.
#include "retrograd/ops/clip.h"

#include <cmath>

#include "stream.h"

RETRO_BEGIN_VARIANT

static double pairwise_sum(const double* sums, double* level, int64_t n) {
  for (int64_t i = 0; i < n; ++i) level[i] = sums[i];
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (n % 2 != 0) level[n / 2] = level[n - 1];
  }
  return n == 1 ? level[0] : 0.0;
}

static double running_sum(const double* sums, int64_t n) {
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) total += sums[i];
  return total;
}

RETRO_KERNEL(clip_forward_f32_cpu, ClipForward) {
  const bool faulty = stream.fault("running_sum");
  const double norm =
      std::sqrt(faulty ? running_sum(a.sums, a.n) : pairwise_sum(a.sums, a.scratch, a.n));
  const double ratio = a.max_norm / (norm < 1e-12 ? 1e-12 : norm);
  *a.norm = norm;
  *a.scale = a.max_norm <= 0.0 || ratio > 1.0 ? 1.0f : static_cast<float>(ratio);
  return ok();
}

RETRO_END_VARIANT
