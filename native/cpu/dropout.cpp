// dropout forward.   y[t,c] = 0 where word(token_index[t] C + c) < threshold, else x[t,c] scale
// dropout backward.  the same map on dy: the mask is drawn again from the stream, never stored.
// x, y, dy, dx: (T, C) f32, y may be x.
// token_index: (T); a negative one is padding and gives a row of zeros.
// word(i): word i % 4 of block i / 4 of the stream (seed, dropout, step, tensor); see philox.h.
// Contract: pinned; one product.
#include "retrograd/ops/dropout.h"

#include "elementwise.h"
#include "stream_words.h"

RETRO_BEGIN_VARIANT

namespace {

struct Mask {
  const float* x;
  const int32_t* token_index;
  float* y;
  int64_t T, C;
  PhiloxStream words;
  uint32_t threshold;
  float scale;
  bool by_row;  // planted fault: the element index taken from the row, not from the token
};

void drop_row(const Mask& m, int64_t t) {
  const float* x = m.x + t * m.C;
  float* y = m.y + t * m.C;
  if (m.token_index[t] < 0) {
    for (int64_t c = 0; c < m.C; ++c) y[c] = 0.0f;
    return;
  }
  const PhiloxStream stream = m.words;
  const uint32_t threshold = m.threshold;
  const float scale = m.scale;
  const uint64_t row = static_cast<uint64_t>(m.by_row ? t : m.token_index[t]);
  uint64_t element = row * static_cast<uint64_t>(m.C);
  alignas(64) uint32_t words[kDrawWords];
  for (int64_t c = 0; c < m.C;) {
    draw_words(stream, element / 4, words);
    const int64_t skip = static_cast<int64_t>(element % 4);
    const int64_t n = least(kDrawWords - skip, m.C - c);
    RETRO_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const float kept = x[c + i] * scale;
      y[c + i] = words[skip + i] < threshold ? 0.0f : kept;
    }
    c += n;
    element += static_cast<uint64_t>(n);
  }
}

RetroStatus drop(const Mask& mask, Stream& stream) {
  for_each_row(stream, mask.T, mask.C, [&](int64_t t) { drop_row(mask, t); });
  return ok();
}

}  // namespace

RETRO_KERNEL(dropout_forward_f32_cpu, DropoutForward) {
  if (a.T < 1) return ok();
  const PhiloxStream words = {a.seed, Purpose::dropout, *a.step, a.tensor};
  return drop({a.x, a.token_index, a.y, a.T, a.C, words, a.threshold, a.scale,
               stream.fault("index_by_row")},
              stream);
}

RETRO_KERNEL(dropout_backward_f32_cpu, DropoutBackward) {
  if (a.T < 1) return ok();
  const PhiloxStream words = {a.seed, Purpose::dropout, *a.step, a.tensor};
  const float scale = stream.fault("drop_scale") ? 1.0f : a.scale;
  return drop({a.dy, a.token_index, a.dx, a.T, a.C, words, a.threshold, scale, false}, stream);
}

RETRO_END_VARIANT
