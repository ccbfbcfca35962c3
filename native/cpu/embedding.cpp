// embedding forward.          y[t,:] = row ids[t] of w, dequantized; zeros for an id outside [0, V)
// embedding backward_weight.  dw = c (or 0), then dw[ids[t],:] += dy[t,:] for t = 0, 1, ...
// w: (V, C) in the row's storage format.  ids: (T).  y, dy: (T, C) f32.
// c, dw: (V, C) f32; c may be dw itself or null.
// Sum: f32, token by token in order, on top of c. Ids outside [0, V) add nothing.
// Contract: pinned.
#include "retrograd/ops/embedding.h"

#include "elementwise.h"
#include "retrograd/formats/all.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kColumns = 64;  // columns of dw a task takes, over all tokens in order

template <class Format>
static RetroStatus gather(const EmbeddingForward& a, Stream& stream) {
  if (a.C % Format::block_elements != 0)
    return invalid("a row is a whole number of blocks of the storage format");
  const int64_t row_bytes = a.C / Format::block_elements * Format::block_bytes;
  const int64_t limit = stream.fault("miss_last_row") ? a.V - 1 : a.V;
  for_each_row(stream, a.T, a.C, [&](int64_t t) {
    const int64_t id = a.ids[t];
    float* y = a.y + t * a.C;
    if (id >= 0 && id < limit)
      decode_row<Format>(a.w + id * row_bytes, y, a.C);
    else
      for (int64_t c = 0; c < a.C; ++c) y[c] = 0.0f;
  });
  return ok();
}

#define RETRO_EMBEDDING(infix, Format)                              \
  RETRO_KERNEL(embedding_forward_##infix##_cpu, EmbeddingForward) { \
    return gather<Format>(a, stream);                               \
  }
RETRO_FOR_EACH_FORMAT(RETRO_EMBEDDING)

RETRO_KERNEL(embedding_backward_weight_f32_cpu, EmbeddingBackwardWeight) {
  const int64_t V = a.V, C = a.C, T = a.T;
  const float* start = a.c;
  if (start == nullptr) {
    float* dw = a.dw;
    for_each_element(stream, V * C, [=](int64_t i) { dw[i] = 0.0f; });
  } else if (start != a.dw) {
    for_each_row(stream, V, C, [&](int64_t v) {
      std::memcpy(a.dw + v * C, start + v * C, static_cast<size_t>(C) * sizeof(float));
    });
  }
  const bool faulty = stream.fault("reverse_tokens");
  stream.parallel(tile_count(C, kColumns), [&](int64_t tile, int) {
    const int64_t begin = tile * kColumns, n = least(kColumns, C - begin);
    for (int64_t i = 0; i < T; ++i) {
      const int64_t t = faulty ? T - 1 - i : i;
      if (a.ids[t] < 0 || a.ids[t] >= V) continue;
      float* dw = a.dw + a.ids[t] * C + begin;
      const float* dy = a.dy + t * C + begin;
      RETRO_INDEPENDENT
      for (int64_t c = 0; c < n; ++c) dw[c] += dy[c];
    }
  });
  return ok();
}

RETRO_END_VARIANT
