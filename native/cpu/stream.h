// What a CPU kernel sees: workers that share a launch, and one-threaded BLAS.
//
// `parallel(n, body)` runs body(i, worker) once for each i < n. Which worker takes which i is left
// open, so a body must write only what i owns: results then cannot depend on the thread count.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "retrograd/arguments.h"

#if defined(__FAST_MATH__)
#error "kernels promise bits: build without -ffast-math or -Ofast (check CXXFLAGS)"
#endif

// Always inlined: a shared weak symbol could otherwise carry
// one variant's instructions into another.
#define RETRO_INLINE inline __attribute__((always_inline))

namespace retrograd {

struct Blas {
  // CBLAS conventions with 32-bit integers: order 101 row-major, transpose 111 no, 112 yes.
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c,
                int ldc) = nullptr;
};

class Pool;

using Body = void (*)(void* context, int64_t index, int worker);

struct Stream {
  Pool* pool = nullptr;
  int threads = 1;
  Blas blas;
  const char* fault_name = nullptr;  // fault active for the row being launched, test builds only

  void run(int64_t n, Body body, void* context);

  template <class F>
  RETRO_INLINE void parallel(int64_t n, F&& body) {
    using Function = std::remove_reference_t<F>;
    run(
        n,
        [](void* context, int64_t index, int worker) {
          (*static_cast<Function*>(context))(index, worker);
        },
        &body);
  }

  // True when the planted fault `name` is switched on for this launch.
  // Compiled away outside test builds.
  RETRO_INLINE bool fault([[maybe_unused]] const char* name) const {
#ifdef RETRO_FAULTS
    return fault_name != nullptr && std::strcmp(fault_name, name) == 0;
#else
    return false;
#endif
  }
};

using Launch = RetroStatus (*)(const void* arguments, Stream& stream);

RETRO_INLINE RetroStatus ok() {
  return {RETRO_OK, nullptr};
}
RETRO_INLINE RetroStatus invalid(const char* text) {
  return {RETRO_INVALID, text};
}

// Number of tiles of at most `size` that cover `extent`.
RETRO_INLINE int64_t tile_count(int64_t extent, int64_t size) {
  return (extent + size - 1) / size;
}

}  // namespace retrograd

// Defines the kernel of one row: `RETRO_KERNEL(rms_norm_forward_f32_cpu,
// RmsNormForward) { use a, stream }`.
#define RETRO_KERNEL(symbol, Arguments)                                      \
  static RetroStatus symbol##_body(const Arguments& a, Stream& stream);      \
  RetroStatus symbol(const void* arguments, Stream& stream) {                \
    return symbol##_body(*static_cast<const Arguments*>(arguments), stream); \
  }                                                                          \
  static RetroStatus symbol##_body([[maybe_unused]] const Arguments& a,      \
                                   [[maybe_unused]] Stream& stream)

// Kernels are compiled once per instruction-set variant, each in its own namespace.
#define RETRO_BEGIN_VARIANT \
  namespace retrograd {     \
  inline namespace RETRO_VARIANT {
#define RETRO_END_VARIANT \
  }                       \
  }
