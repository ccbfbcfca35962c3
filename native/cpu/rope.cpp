// rope forward.   pair i of a head of token t turns by the angle of p = positions[t]:
//                 (a, b) -> (a cos[p,i] - b sin[p,i], b cos[p,i] + a sin[p,i])
// rope backward.  the same with -sin.
// x, y, dy, dx: (T, C) f32, C / head_size heads; y may be x.
// cos, sin: (P, n_rot/2) f32, computed by the host in float64.
// Pairs: neox (i, i + n_rot/2), else (2i, 2i + 1). A head's elements from n_rot on are copied.
// Contract: pinned; two products and one sum, each rounded.
#include "retrograd/ops/rope.h"

#include "elementwise.h"

RETRO_BEGIN_VARIANT

namespace {

struct Rotation {
  const float* x;
  const int32_t* positions;
  const float *cos, *sin;
  float* y;
  int64_t T, C, P;
  int32_t head_size, n_rot, neox;
  int32_t n_pairs;  // pairs turned: n_rot / 2 unless a fault drops one
};

// One head: pair i starts at element kStep i, its second member lies `partner` elements on.
template <bool kBackward, int kStep>
void rotate_head(const float* x, const float* cos, const float* sin, float* y, int64_t n_pairs,
                 int64_t partner) {
  RETRO_INDEPENDENT
  for (int64_t i = 0; i < n_pairs; ++i) {
    const float first = x[kStep * i], second = x[kStep * i + partner];
    const float s = kBackward ? -sin[i] : sin[i];
    y[kStep * i] = first * cos[i] - second * s;
    y[kStep * i + partner] = second * cos[i] + first * s;
  }
}

RetroStatus check(const Rotation& r) {
  if (r.head_size < 1 || r.C % r.head_size != 0) return invalid("head_size divides the row length");
  if (r.n_rot < 0 || r.n_rot % 2 != 0 || r.n_rot > r.head_size)
    return invalid("n_rot is even and at most head_size");
  for (int64_t t = 0; t < r.T; ++t)
    if (r.positions[t] < 0 || r.positions[t] >= r.P)
      return invalid("positions lie inside the rotation tables");
  return ok();
}

template <bool kBackward>
RetroStatus rotate(const Rotation& r, Stream& stream) {
  const RetroStatus status = check(r);
  if (status.code != RETRO_OK) return status;
  const int64_t half = r.n_rot / 2;
  for_each_row(stream, r.T, r.C, [&](int64_t t) {
    const float* cos = r.cos + r.positions[t] * half;
    const float* sin = r.sin + r.positions[t] * half;
    for (int64_t h = 0; h < r.C; h += r.head_size) {
      const float* x = r.x + t * r.C + h;
      float* y = r.y + t * r.C + h;
      // Whatever no pair covers is copied first.
      if (x != y)
        for (int64_t i = r.n_pairs < half ? 0 : r.n_rot; i < r.head_size; ++i) y[i] = x[i];
      if (r.neox != 0)
        rotate_head<kBackward, 1>(x, cos, sin, y, r.n_pairs, half);
      else
        rotate_head<kBackward, 2>(x, cos, sin, y, r.n_pairs, 1);
    }
  });
  return ok();
}

}  // namespace

RETRO_KERNEL(rope_forward_f32_cpu, RopeForward) {
  const int32_t n_pairs =
      stream.fault("skip_last_pair") && a.n_rot > 0 ? a.n_rot / 2 - 1 : a.n_rot / 2;
  return rotate<false>(
      {a.x, a.positions, a.cos, a.sin, a.y, a.T, a.C, a.P, a.head_size, a.n_rot, a.neox, n_pairs},
      stream);
}

RETRO_KERNEL(rope_backward_f32_cpu, RopeBackward) {
  const Rotation r = {a.dy, a.positions, a.cos,       a.sin,   a.dx,   a.T,
                      a.C,  a.P,         a.head_size, a.n_rot, a.neox, a.n_rot / 2};
  return stream.fault("forward_angle") ? rotate<false>(r, stream) : rotate<true>(r, stream);
}

RETRO_END_VARIANT
