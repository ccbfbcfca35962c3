// sgd step, decoupled decay.  g, x, buf: n f32; x and buf in place; buf is null without momentum.
//   g = s g;  buf = mu buf + g;  u = nesterov ? g + mu buf : buf,  s = clip[0];
//   without buf u = g x = x w - lr u
// Contract: pinned; float32, one rounding per operation in this order.
#include "retrograd/ops/sgd.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

RETRO_KERNEL(sgd_step_f32_cpu, SgdStep) {
  if (a.n < 1) return ok();
  if (a.buf == nullptr && a.nesterov != 0) return invalid("nesterov needs a momentum buffer");
  const SgdSettings p = *a.settings;
  const float clip = *a.clip;
  const bool faulty = stream.fault("decay_after_step");
  const float* gradient = a.g;
  float *x = a.x, *buf = a.buf;
  const auto stepped = [=](float value, float u) {
    return faulty ? (value - p.lr * u) * p.w : value * p.w - p.lr * u;
  };
  if (buf == nullptr) {
    for_each_element(stream, a.n, [=](int64_t i) { x[i] = stepped(x[i], clip * gradient[i]); });
  } else if (a.nesterov != 0) {
    for_each_element(stream, a.n, [=](int64_t i) {
      const float g = clip * gradient[i];
      const float momentum = p.mu * buf[i] + g;
      buf[i] = momentum;
      x[i] = stepped(x[i], g + p.mu * momentum);
    });
  } else {
    for_each_element(stream, a.n, [=](int64_t i) {
      const float momentum = p.mu * buf[i] + clip * gradient[i];
      buf[i] = momentum;
      x[i] = stepped(x[i], momentum);
    });
  }
  return ok();
}

RETRO_END_VARIANT
