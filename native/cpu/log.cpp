// log forward.  y[i] = ln x[i], x and y: n f32. The map of retrograd/math.h; see exp.cpp.
// Contract: pinned.
#include "retrograd/ops/log.h"

#include "elementwise.h"
#include "retrograd/math.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(log_forward_f32_cpu, LogForward) {
  const float* x = a.x;
  float* y = a.y;
  if (stream.fault("subnormal_as_zero")) {
    for_each_element(stream, a.n, [=](int64_t i) {
      y[i] = log_f32(magnitude_bits(x[i]) < 0x00800000 ? 0.0f : x[i]);
    });
    return ok();
  }
  for_each_element(stream, a.n, [=](int64_t i) { y[i] = log_f32(x[i]); });
  return ok();
}

RETRO_END_VARIANT
