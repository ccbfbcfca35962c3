// fill forward.  y[i] = value, y: n f32.
// Contract: pinned.
#include "retrograd/ops/fill.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(fill_forward_f32_cpu, FillForward) {
  float* y = a.y;
  const float value = a.value;
  const int64_t n = stream.fault("skip_last_element") ? a.n - 1 : a.n;
  for_each_element(stream, n, [=](int64_t i) { y[i] = value; });
  return ok();
}

RETRO_END_VARIANT
