// add forward.  y[i] = a[i] + b[i], one float32 addition. a, b, y: n f32; y may be a or b.
// Contract: pinned.
#include "retrograd/ops/add.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(add_forward_f32_cpu, AddForward) {
  const float* left = a.a;
  const float* right = a.b;
  float* y = a.y;
  const int64_t n = stream.fault("skip_last_element") ? a.n - 1 : a.n;
  for_each_element(stream, n, [=](int64_t i) { y[i] = left[i] + right[i]; });
  return ok();
}

RETRO_END_VARIANT
