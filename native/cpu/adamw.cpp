// adamw step (arXiv:1711.05101, decoupled decay).  g, x, m, v: n f32; x, m, v in place.
//   g = s g;  m = b1 m + c1 g;  v = b2 v + (c2 g) g,  s = clip[0]
//   x = x w - lr ((m / k1) / (sqrt(v / k2) + eps))
// Contract: pinned; float32, one rounding per operation in this order, IEEE root and division.
#include "retrograd/ops/adamw.h"

#include <cmath>

#include "elementwise.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(adamw_step_f32_cpu, AdamwStep) {
  if (a.n < 1) return ok();
  const AdamwSettings p = *a.settings;
  const float clip = *a.clip;
  const float* gradient = a.g;
  float *x = a.x, *m = a.m, *v = a.v;
  if (stream.fault("eps_inside_root")) {
    for_each_element(stream, a.n, [=](int64_t i) {
      const float g = clip * gradient[i];
      m[i] = p.b1 * m[i] + p.c1 * g;
      v[i] = p.b2 * v[i] + p.c2 * g * g;
      x[i] = x[i] * p.w - p.lr * ((m[i] / p.k1) / std::sqrt(v[i] / p.k2 + p.eps));
    });
    return ok();
  }
  const bool other = stream.fault("other_association");
  for_each_element(stream, a.n, [=](int64_t i) {
    const float g = clip * gradient[i];
    const float first = p.b1 * m[i] + p.c1 * g;
    const float second = p.b2 * v[i] + (other ? p.c2 * (g * g) : (p.c2 * g) * g);
    m[i] = first;
    v[i] = second;
    x[i] = x[i] * p.w - p.lr * ((first / p.k1) / (std::sqrt(second / p.k2) + p.eps));
  });
  return ok();
}

RETRO_END_VARIANT
