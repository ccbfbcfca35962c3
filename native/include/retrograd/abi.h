// The C ABI between the program executor and a backend library.
//
// A backend is one shared library that exports `retro_backend`. It owns kernels and device memory
// and knows nothing of models or training. Status codes cross this line, never exceptions; texts
// are static strings. The layout of every struct below and of every argument struct in ops/ is
// pinned by a lane from both sides.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

constexpr uint32_t RETRO_ABI_VERSION = 2;

enum RetroCode : int32_t {
  RETRO_OK = 0,
  RETRO_INVALID = 1,    // an argument breaks the row's rule
  RETRO_ABSENT = 2,     // a library, a device or a feature is not there
  RETRO_EXHAUSTED = 3,  // out of memory on the device or the host
  RETRO_FAILED = 4,     // the device or a library reported an error
};

struct RetroStatus {
  int32_t code;
  const char* text;  // static storage; null when code is RETRO_OK
};

enum RetroKind : int32_t {
  RETRO_POINTER = 0,
  RETRO_I64 = 1,
  RETRO_U64 = 2,
  RETRO_F64 = 3,
  RETRO_F32 = 4,
  RETRO_I32 = 5,
  RETRO_U32 = 6
};

// One field of an argument struct as the compiler laid it out.
struct RetroField {
  const char* name;
  int32_t kind;
  int32_t offset;
  int32_t n_bytes;
};

// One kernel row of the library: its id, `<op>.<direction>.<dtype>.<backend>`, and its argument
// struct.
struct RetroRow {
  const char* id;
  int32_t n_bytes;
  int32_t alignment;
  int32_t n_fields;
  int32_t reserved;
  const RetroField* fields;
  const char* digest;  // SHA-256 in hex of what the row was compiled from, see native/digests.py
};

struct RetroOptions {
  int32_t threads;  // workers that share a launch; results do not depend on it
  int32_t reserved;
  const char* isa;   // instruction-set variant, or null for the best this machine has
  const char* blas;  // path of the BLAS library, or null for none
};

struct RetroProbe {
  const char* device;
  const char* isa;   // variant in use
  const char* blas;  // what the BLAS library says of itself
  int32_t threads;
  int32_t has_faults;            // 1 in a test build
  const char* compiler;          // "gcc" or "clang"
  const char* compiler_version;  // "12.2.0"
  const char* flags;             // of every variant, and what the environment of the build added
};

struct RetroCounters {
  uint64_t launches;
  uint64_t allocations;
  uint64_t allocated_bytes;
  uint64_t host_to_device_bytes;
  uint64_t device_to_host_bytes;
  uint64_t synchronisations;
};

struct RetroStream;  // a backend's execution state: worker pool, queue, counters

enum RetroCopy : int32_t { RETRO_TO_DEVICE = 0, RETRO_TO_HOST = 1 };

struct RetroBackend {
  uint32_t abi_version;
  uint32_t n_rows;
  const RetroRow* rows;
  const char* name;
  RetroStatus (*open)(const RetroOptions* options, RetroStream** stream);
  void (*close)(RetroStream* stream);
  RetroStatus (*probe)(RetroStream* stream, RetroProbe* probe);
  RetroStatus (*allocate)(RetroStream* stream, size_t n_bytes,
                          void** memory);  // zeroed, 64-byte aligned
  void (*release)(RetroStream* stream, void* memory);
  RetroStatus (*copy)(RetroStream* stream, void* to, const void* from, size_t n_bytes,
                      int32_t kind);
  RetroStatus (*launch)(RetroStream* stream, uint32_t row, const void* arguments);
  RetroStatus (*synchronise)(RetroStream* stream);
  RetroStatus (*counters)(RetroStream* stream, RetroCounters* counters);
  RetroStatus (*set_fault)(RetroStream* stream,
                           const char* fault);  // "row:name" or null; refused outside test builds
};

const RetroBackend* retro_backend(void);

}  // extern "C"
