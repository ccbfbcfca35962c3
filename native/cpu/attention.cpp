// attention forward.   o[t,h] = sum_j P_tj v[j,g], P_tj = exp(scale q[t,h].k[j,g] - L[t,h]), keys
//                      in [key_begin[t], key_end[t]); an empty range gives o = 0, L = -inf.
// attention backward.  D = do.o; dP = do.v; dS = scale P (dP - D);
//                      dq = dS k; dk = dS^T q; dv = P^T do.
// q, o, do, dq: (T, heads head_size).  k, v, dk, dv: (S, kv_heads head_size).
// L: (T, heads), saved for backward.
// Accumulation: f32. Forward streams tiles of 64 queries x 128 keys, starting at the tile's first
// allowed key. Backward: one task a head over all its tiles in order; dk and dv of a group's heads
// are then added in head order.
// Contract: bounded.
#include "retrograd/ops/attention.h"

#include "gemm.h"
#include "softmax.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kQueries = 64;
static constexpr int64_t kKeys = 128;

// Keys that any query of a tile sees.
struct KeyRange {
  int64_t begin, end;
};

static KeyRange tile_range(const int32_t* key_begin, const int32_t* key_end, int64_t first,
                           int64_t last, int64_t S) {
  KeyRange range = {S, 0};
  for (int64_t t = first; t < last; ++t) {
    if (key_begin[t] >= key_end[t]) continue;
    if (key_begin[t] < range.begin) range.begin = key_begin[t];
    if (key_end[t] > range.end) range.end = key_end[t];
  }
  return range;
}

static bool ranges_inside(const int32_t* key_begin, const int32_t* key_end, int64_t T, int64_t S) {
  for (int64_t t = 0; t < T; ++t)
    if (key_begin[t] < key_end[t] && (key_begin[t] < 0 || key_end[t] > S)) return false;
  return true;
}

// The part of a key tile [j, j + n) that query t sees, relative to j.
static KeyRange visible(const int32_t* key_begin, const int32_t* key_end, int64_t t, int64_t j,
                        int64_t n) {
  const int64_t begin = key_begin[t] > j ? key_begin[t] - j : 0;
  const int64_t end = key_end[t] < j + n ? key_end[t] - j : n;
  return begin < end ? KeyRange{begin, end} : KeyRange{0, 0};
}

static void clear_outside(float* row, int64_t n, KeyRange seen) {
  for (int64_t i = 0; i < seen.begin; ++i) row[i] = 0.0f;
  for (int64_t i = seen.end; i < n; ++i) row[i] = 0.0f;
}

static void forward_tile(const AttentionForward& a, const Stream& stream, int64_t first, int head,
                         float* weights) {
  const int64_t size = a.head_size, stride = a.heads * size, kv_stride = a.kv_heads * size;
  const int64_t last = first + kQueries < a.T ? first + kQueries : a.T, rows = last - first;
  const int64_t group = head / (a.heads / a.kv_heads);
  const float* q = a.q + first * stride + head * size;
  float* o = a.o + first * stride + head * size;
  Running running[kQueries];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < size; ++i) o[r * stride + i] = 0.0f;
  const KeyRange range = tile_range(a.key_begin, a.key_end, first, last, a.S);
  for (int64_t j = range.begin; j < range.end; j += kKeys) {
    const int64_t n = range.end - j < kKeys ? range.end - j : kKeys;
    const Operand k = {a.k + j * kv_stride + group * size, kv_stride, Transpose::yes};
    const Operand v = {a.v + j * kv_stride + group * size, kv_stride, Transpose::no};
    sgemm(stream.blas, {q, stride, Transpose::no}, k, rows, n, size, a.scale, 0.0f, weights, kKeys);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = weights + r * kKeys;
      KeyRange seen = visible(a.key_begin, a.key_end, first + r, j, n);
      if (stream.fault("future_key") && seen.end > 0 && seen.end < n) seen.end += 1;
      const float factor =
          seen.end > 0 ? running[r].absorb(row + seen.begin, seen.end - seen.begin) : 1.0f;
      clear_outside(row, n, seen);
      if (factor != 1.0f && !stream.fault("keep_old_sum")) scale_row(o + r * stride, size, factor);
    }
    sgemm(stream.blas, {weights, kKeys, Transpose::no}, v, rows, size, n, 1.0f, 1.0f, o, stride);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const bool empty = a.key_begin[first + r] >= a.key_end[first + r];
    if (!empty) scale_row(o + r * stride, size, 1.0f / running[r].sum);
    a.L[(first + r) * a.heads + head] =
        empty ? kNegativeInfinity : running[r].maximum + log_f32(running[r].sum);
  }
}

static bool heads_fit(int32_t heads, int32_t kv_heads, int32_t head_size) {
  return kv_heads > 0 && heads > 0 && head_size > 0 && heads % kv_heads == 0;
}

RETRO_KERNEL(attention_forward_f32_cpu, AttentionForward) {
  if (!heads_fit(a.heads, a.kv_heads, a.head_size))
    return invalid("kv_heads divides heads; all sizes are positive");
  if (!ranges_inside(a.key_begin, a.key_end, a.T, a.S))
    return invalid("key ranges lie inside the keys");
  const int64_t tiles = tile_count(a.T, kQueries);
  stream.parallel(tiles * a.heads, [&](int64_t task, int worker) {
    // Later tiles see more keys when attention is causal: start with them,
    // so that workers end together.
    forward_tile(a, stream, (tiles - 1 - task / a.heads) * kQueries,
                 static_cast<int>(task % a.heads), a.scratch + worker * kQueries * kKeys);
  });
  return ok();
}

// dk and dv of one head, (S, head_size) each.
struct HeadGradients {
  float* dk;
  float* dv;
};

static void backward_tile(const AttentionBackward& a, const Stream& stream, int64_t first, int head,
                          HeadGradients out, float* p, float* ds) {
  const int64_t size = a.head_size, stride = a.heads * size, kv_stride = a.kv_heads * size;
  const int64_t last = first + kQueries < a.T ? first + kQueries : a.T, rows = last - first;
  const int64_t group = head / (a.heads / a.kv_heads);
  const int64_t at = first * stride + head * size;
  float dot[kQueries];
  for (int64_t r = 0; r < rows; ++r) {
    const float *d_o = a.d_o + at + r * stride, *o = a.o + at + r * stride;
    float* dq = a.dq + at + r * stride;
    dot[r] =
        stream.fault("drop_dot") ? 0.0f : row_sum(size, [&](int64_t i) { return d_o[i] * o[i]; });
    for (int64_t i = 0; i < size; ++i) dq[i] = 0.0f;
  }
  const KeyRange range = tile_range(a.key_begin, a.key_end, first, last, a.S);
  for (int64_t j = range.begin; j < range.end; j += kKeys) {
    const int64_t n = range.end - j < kKeys ? range.end - j : kKeys;
    const float *k = a.k + j * kv_stride + group * size, *v = a.v + j * kv_stride + group * size;
    const Operand q = {a.q + at, stride, Transpose::no}, d_o = {a.d_o + at, stride, Transpose::no};
    sgemm(stream.blas, q, {k, kv_stride, Transpose::yes}, rows, n, size, a.scale, 0.0f, p, kKeys);
    sgemm(stream.blas, d_o, {v, kv_stride, Transpose::yes}, rows, n, size, 1.0f, 0.0f, ds, kKeys);
    for (int64_t r = 0; r < rows; ++r) {
      float *p_row = p + r * kKeys, *ds_row = ds + r * kKeys;
      const KeyRange seen = visible(a.key_begin, a.key_end, first + r, j, n);
      const float l = a.L[(first + r) * a.heads + head], d = dot[r], scale = a.scale;
      for (int64_t i = seen.begin; i < seen.end; ++i) p_row[i] = exp_f32(p_row[i] - l);
      for (int64_t i = seen.begin; i < seen.end; ++i)
        ds_row[i] = scale * (p_row[i] * (ds_row[i] - d));
      clear_outside(p_row, n, seen);
      clear_outside(ds_row, n, seen);
    }
    sgemm(stream.blas, {ds, kKeys, Transpose::no}, {k, kv_stride, Transpose::no}, rows, size, n,
          1.0f, 1.0f, a.dq + at, stride);
    sgemm(stream.blas, {ds, kKeys, Transpose::yes}, q, n, size, rows, 1.0f, 1.0f, out.dk + j * size,
          size);
    sgemm(stream.blas, {p, kKeys, Transpose::yes}, d_o, n, size, rows, 1.0f, 1.0f,
          out.dv + j * size, size);
  }
}

RETRO_KERNEL(attention_backward_f32_cpu, AttentionBackward) {
  if (!heads_fit(a.heads, a.kv_heads, a.head_size))
    return invalid("kv_heads divides heads; all sizes are positive");
  if (!ranges_inside(a.key_begin, a.key_end, a.T, a.S))
    return invalid("key ranges lie inside the keys");
  const int64_t size = a.head_size, plane = a.S * size;
  float* partial = a.scratch;
  float* tiles = a.scratch + 2 * plane * a.heads;
  stream.parallel(a.heads, [&](int64_t head, int worker) {
    const HeadGradients out = {partial + 2 * head * plane, partial + (2 * head + 1) * plane};
    std::memset(out.dk, 0, 2 * plane * sizeof(float));
    float* p = tiles + worker * 2 * kQueries * kKeys;
    for (int64_t first = 0; first < a.T; first += kQueries)
      backward_tile(a, stream, first, static_cast<int>(head), out, p, p + kQueries * kKeys);
  });
  const int64_t width = a.heads / a.kv_heads;
  const bool faulty = stream.fault("wrong_group");
  stream.parallel(a.S, [&](int64_t s, int) {
    for (int64_t g = 0; g < a.kv_heads; ++g) {
      float *dk = a.dk + (s * a.kv_heads + g) * size, *dv = a.dv + (s * a.kv_heads + g) * size;
      for (int64_t h = 0; h < width; ++h) {
        const int64_t head = faulty ? h * a.kv_heads + g : g * width + h;
        const float* from = partial + 2 * head * plane + s * size;
        for (int64_t i = 0; i < size; ++i) dk[i] = h == 0 ? from[i] : dk[i] + from[i];
        for (int64_t i = 0; i < size; ++i)
          dv[i] = h == 0 ? from[plane + i] : dv[i] + from[plane + i];
      }
    }
  });
  return ok();
}

RETRO_END_VARIANT
