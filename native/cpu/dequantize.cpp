// dequantize forward.  y = the n elements of w in float32, w in the row's storage format.
// w: n / block_elements blocks, any alignment.  y: n f32.
// Contract: pinned, equal to the gguf package's decoders; see retrograd/formats.
#include "retrograd/ops/dequantize.h"

#include "elementwise.h"
#include "retrograd/formats/all.h"

RETRO_BEGIN_VARIANT

template <class Format>
static RetroStatus dequantize(const DequantizeForward& a, Stream& stream) {
  constexpr int64_t block = Format::block_elements;
  static_assert(kChunk % block == 0, "a chunk holds whole blocks");
  if (a.n % block != 0) return invalid("n is a whole number of blocks of the storage format");
  stream.parallel(tile_count(a.n, kChunk), [&](int64_t tile, int) {
    const int64_t begin = tile * kChunk, n = least(kChunk, a.n - begin);
    decode_row<Format>(a.w + begin / block * Format::block_bytes, a.y + begin, n);
    // Planted fault: the chunk's last block read from the one before it.
    if (stream.fault("repeat_block") && n > block)
      decode_row<Format>(a.w + ((begin + n) / block - 2) * Format::block_bytes,
                         a.y + begin + n - block, block);
  });
  return ok();
}

#define RETRO_DEQUANTIZE(infix, Format)                               \
  RETRO_KERNEL(dequantize_forward_##infix##_cpu, DequantizeForward) { \
    return dequantize<Format>(a, stream);                             \
  }
RETRO_FOR_EACH_FORMAT(RETRO_DEQUANTIZE)

RETRO_END_VARIANT
