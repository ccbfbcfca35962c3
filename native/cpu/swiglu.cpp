// swiglu forward.   y = silu(g) u
// swiglu backward.  du = dy silu(g);  dg = (dy u) silu'(g),  silu'(g) = s(g) (1 + g (1 - s(g)))
// g, u, y, dy, dg, du: n f32; an output may be an input's buffer.
// Nothing is saved for backward: s(g) is computed again from g.
// Contract: pinned; one rounding per operation in the order of these lines and of math.h.
#include "retrograd/ops/swiglu.h"

#include "elementwise.h"
#include "retrograd/math.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(swiglu_forward_f32_cpu, SwigluForward) {
  const float* g = a.g;
  const float* u = a.u;
  float* y = a.y;
  if (stream.fault("other_association")) {
    for_each_element(stream, a.n, [=](int64_t i) { y[i] = logistic_f32(g[i]) * (g[i] * u[i]); });
    return ok();
  }
  for_each_element(stream, a.n, [=](int64_t i) { y[i] = silu_f32(g[i]).value * u[i]; });
  return ok();
}

RETRO_KERNEL(swiglu_backward_f32_cpu, SwigluBackward) {
  const float* dy = a.dy;
  const float* g = a.g;
  const float* u = a.u;
  float* dg = a.dg;
  float* du = a.du;
  if (stream.fault("drop_slope_term")) {
    for_each_element(stream, a.n, [=](int64_t i) {
      const float cotangent = dy[i], gate = g[i];
      dg[i] = cotangent * u[i] * logistic_f32(gate);
      du[i] = cotangent * silu_f32(gate).value;
    });
    return ok();
  }
  for_each_element(stream, a.n, [=](int64_t i) {
    const float cotangent = dy[i], up = u[i];
    const Silu silu = silu_f32(g[i]);
    dg[i] = cotangent * up * silu.slope;
    du[i] = cotangent * silu.value;
  });
  return ok();
}

RETRO_END_VARIANT
