// exp forward.  y[i] = e^x[i], x and y: n f32. The map of retrograd/math.h, which the kernels that
// need an exponential call directly; this row is how its accuracy is measured over every float32.
// Contract: pinned.
#include "retrograd/ops/exp.h"

#include "elementwise.h"
#include "retrograd/math.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(exp_forward_f32_cpu, ExpForward) {
  const float* x = a.x;
  float* y = a.y;
  if (stream.fault("flush_subnormal")) {
    for_each_element(stream, a.n, [=](int64_t i) {
      const float value = exp_f32(x[i]);
      y[i] = magnitude_bits(value) < 0x00800000 ? 0.0f : value;
    });
    return ok();
  }
  for_each_element(stream, a.n, [=](int64_t i) { y[i] = exp_f32(x[i]); });
  return ok();
}

RETRO_END_VARIANT
