// linear_cross_entropy forward.
//   nll[t] = logsumexp_v(h[t].w[v]) - h[t].w[y], y = targets[t]; ignored when y < 0
//   dh_unit[t] = sum_v softmax_v(h[t] w^T) w[v] - w[y], when asked for
// linear_cross_entropy backward.  dh[t] = dnll[t] dh_unit[t]
// h, dh_unit: (T, C) f32.  w: (V, C) in a storage format.  nll: (T).
// Ignored rows are dropped first. The vocabulary is cut into 8 partitions of whole 512-row tiles;
// each streams a running maximum, sum and weighted sum of rows of w, and the partitions are merged
// in order. Accumulation: f32.
// Contract: bounded (forward), pinned (backward).
#include "retrograd/ops/linear_cross_entropy.h"

#include "gemm.h"
#include "retrograd/formats/all.h"
#include "softmax.h"

RETRO_BEGIN_VARIANT

static constexpr int64_t kRowBlock = 512;
static constexpr int64_t kPartitions = 8;
static constexpr int64_t kVocabularyTile = 512;

// Where the pieces of scratch lie (see ops/linear_cross_entropy.py for its size).
struct Workspace {
  int64_t* active;  // rows that have a target
  float* h;         // (rows, C) gathered
  float* weighted;  // (partitions, rows, C)
  float* maximum;   // (partitions, rows)
  float* sum;       // (partitions, rows)
  float* target;    // (rows) logit of the target
  float* tiles;     // per worker: (tile, C) weights, (rows, tile) logits
  int64_t rows, tile_elements;

  Workspace(const LinearCrossEntropyForward& a) : rows(a.T < kRowBlock ? a.T : kRowBlock) {
    active = reinterpret_cast<int64_t*>(a.scratch);
    h = reinterpret_cast<float*>(active + a.T);
    weighted = h + rows * a.C;
    maximum = weighted + kPartitions * rows * a.C;
    sum = maximum + kPartitions * rows;
    target = sum + kPartitions * rows;
    tiles = target + rows;
    tile_elements = kVocabularyTile * a.C + rows * kVocabularyTile;
  }
};

template <class Format>
static void decode_rows(const uint8_t* w, int64_t first, int64_t rows, int64_t C, float* out) {
  const int64_t row_bytes = C / Format::block_elements * Format::block_bytes;
  decode_row<Format>(w + first * row_bytes, out, rows * C);
}

// Streams one partition of the vocabulary for n gathered rows, whose targets are
// a.targets[active[r]].
template <class Format>
static void stream_partition(const LinearCrossEntropyForward& a, const Stream& stream,
                             const Workspace& space, const int64_t* active, int64_t n,
                             int64_t partition, int worker) {
  const int64_t tiles = tile_count(a.V, kVocabularyTile);
  const int64_t first = partition * tiles / kPartitions,
                last = (partition + 1) * tiles / kPartitions;
  float* w = space.tiles + worker * space.tile_elements;
  float* z = w + kVocabularyTile * a.C;
  float* weighted = space.weighted + partition * space.rows * a.C;
  Running running[kRowBlock];
  if (a.dh_unit != nullptr) std::memset(weighted, 0, n * a.C * sizeof(float));
  for (int64_t tile = first; tile < last; ++tile) {
    const int64_t v = tile * kVocabularyTile,
                  width = a.V - v < kVocabularyTile ? a.V - v : kVocabularyTile;
    decode_rows<Format>(a.w, v, width, a.C, w);
    sgemm(stream.blas, {space.h, a.C, Transpose::no}, {w, a.C, Transpose::yes}, n, width, a.C, 1.0f,
          0.0f, z, kVocabularyTile);
    for (int64_t r = 0; r < n; ++r) {
      float* row = z + r * kVocabularyTile;
      const int64_t y = a.targets[active[r]] - v;
      if (y >= 0 && y < width) space.target[r] = row[y];
      const int64_t seen =
          stream.fault("short_tile") && tile == tiles - 1 && width > 1 ? width - 1 : width;
      const float factor = running[r].absorb(row, seen);
      if (a.dh_unit != nullptr && factor != 1.0f) scale_row(weighted + r * a.C, a.C, factor);
    }
    if (a.dh_unit != nullptr)
      sgemm(stream.blas, {z, kVocabularyTile, Transpose::no}, {w, a.C, Transpose::no}, n, a.C,
            width, 1.0f, 1.0f, weighted, a.C);
  }
  for (int64_t r = 0; r < n; ++r) {
    space.maximum[partition * space.rows + r] = running[r].maximum;
    space.sum[partition * space.rows + r] = running[r].sum;
  }
}

// Joins the partitions of one row, in order.
template <class Format>
static void merge_row(const LinearCrossEntropyForward& a, const Stream& stream,
                      const Workspace& space, int64_t t, int64_t r, float* w) {
  float maximum = kNegativeInfinity, sum = 0.0f, factors[kPartitions];
  for (int64_t p = 0; p < kPartitions; ++p) {
    const float m = space.maximum[p * space.rows + r];
    maximum = m > maximum ? m : maximum;
  }
  for (int64_t p = 0; p < kPartitions; ++p) {
    const float m = space.maximum[p * space.rows + r];
    // A partition without tiles has maximum -inf and adds nothing.
    factors[p] = m == kNegativeInfinity ? 0.0f : exp_f32(m - maximum);
    sum += space.sum[p * space.rows + r] * factors[p];
  }
  a.nll[t] = (maximum - space.target[r]) + log_f32(sum);
  if (a.dh_unit == nullptr) return;
  float* out = a.dh_unit + t * a.C;
  for (int64_t c = 0; c < a.C; ++c) out[c] = 0.0f;
  for (int64_t p = 0; p < kPartitions; ++p) {
    if (factors[p] == 0.0f) continue;
    const float *weighted = space.weighted + (p * space.rows + r) * a.C, factor = factors[p] / sum;
    for (int64_t c = 0; c < a.C; ++c) out[c] += weighted[c] * factor;
  }
  if (stream.fault("keep_target")) return;
  decode_rows<Format>(a.w, a.targets[t], 1, a.C, w);
  for (int64_t c = 0; c < a.C; ++c) out[c] -= w[c];
}

template <class Format>
static RetroStatus forward(const LinearCrossEntropyForward& a, Stream& stream) {
  if (a.C % Format::block_elements != 0) return invalid("C holds whole blocks of the format");
  const Workspace space(a);
  int64_t count = 0;
  for (int64_t t = 0; t < a.T; ++t) {
    if (a.targets[t] >= a.V) return invalid("targets lie inside the vocabulary");
    if (a.targets[t] >= 0) {
      space.active[count++] = t;
      continue;
    }
    a.nll[t] = 0.0f;
    if (a.dh_unit != nullptr) std::memset(a.dh_unit + t * a.C, 0, a.C * sizeof(float));
  }
  for (int64_t first = 0; first < count; first += kRowBlock) {
    const int64_t n = count - first < kRowBlock ? count - first : kRowBlock;
    const int64_t* active = space.active + first;
    for (int64_t r = 0; r < n; ++r)
      std::memcpy(space.h + r * a.C, a.h + active[r] * a.C, a.C * sizeof(float));
    stream.parallel(kPartitions, [&](int64_t partition, int worker) {
      stream_partition<Format>(a, stream, space, active, n, partition, worker);
    });
    stream.parallel(n, [&](int64_t r, int worker) {
      merge_row<Format>(a, stream, space, active[r], r, space.tiles + worker * space.tile_elements);
    });
  }
  return ok();
}

#define RETRO_INSTANCE(name, Format)                                                   \
  RETRO_KERNEL(linear_cross_entropy_forward_##name##_cpu, LinearCrossEntropyForward) { \
    return forward<Format>(a, stream);                                                 \
  }
RETRO_FOR_EACH_FORMAT(RETRO_INSTANCE)

RETRO_KERNEL(linear_cross_entropy_backward_f32_cpu, LinearCrossEntropyBackward) {
  const bool faulty = stream.fault("drop_weight");
  stream.parallel(a.T, [&](int64_t t, int) {
    const float dnll = faulty ? 1.0f : a.dnll[t];
    for (int64_t c = 0; c < a.C; ++c) a.dh[t * a.C + c] = dnll * a.dh_unit[t * a.C + c];
  });
  return ok();
}

RETRO_END_VARIANT
