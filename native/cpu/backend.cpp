// The CPU backend: instruction-set dispatch, BLAS loading, and the C ABI over the kernels that
// rows.toml declares.
#include <dlfcn.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <system_error>
#include <unordered_map>

#include "pool.h"
#include "stream.h"

// Written by native/generate.py from rows.toml: argument headers, kernel declarations, `kRows` and
// `kKernels`.
#include "dispatch.inc"

namespace {

using retrograd::invalid;
using retrograd::ok;

struct Isa {
  const char* name;
  size_t variant;  // column of kKernels
  bool (*available)();
};

bool always() {
  return true;
}
bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

// Best last.
constexpr Isa kIsas[] = {{"portable", 0, always}, {"avx2", 1, has_avx2}};

struct CpuStream {
  retrograd::Stream stream;
  std::unique_ptr<retrograd::Pool> pool;
  const Isa* isa = nullptr;
  std::string blas_name = "none";
  std::string fault_row, fault_name;
  std::unordered_map<void*, size_t> blocks;  // what was allocated and not released
  RetroCounters counters = {};
};

#define RETRO_DIGITS(number) #number
#define RETRO_VERSION(major, minor, patch) \
  RETRO_DIGITS(major) "." RETRO_DIGITS(minor) "." RETRO_DIGITS(patch)
#if defined(__clang__)
constexpr const char* kCompiler = "clang";
constexpr const char* kCompilerVersion =
    RETRO_VERSION(__clang_major__, __clang_minor__, __clang_patchlevel__);
#else
constexpr const char* kCompiler = "gcc";
constexpr const char* kCompilerVersion =
    RETRO_VERSION(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif

constexpr size_t kHugeBytes = size_t{4} << 20;

CpuStream* of(RetroStream* stream) {
  return reinterpret_cast<CpuStream*>(stream);
}

RetroStatus load_blas(const char* path, CpuStream& cpu) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {RETRO_ABSENT, "the BLAS library cannot be loaded"};
  auto symbol = [&](const char* name) { return dlsym(library, name); };
  auto sgemm = reinterpret_cast<decltype(cpu.stream.blas.sgemm)>(symbol("scipy_cblas_sgemm"));
  auto set_threads = reinterpret_cast<void (*)(int)>(symbol("scipy_openblas_set_num_threads"));
  auto get_config = reinterpret_cast<char* (*)()>(symbol("scipy_openblas_get_config"));
  auto get_core = reinterpret_cast<char* (*)()>(symbol("scipy_openblas_get_corename"));
  if (sgemm == nullptr || set_threads == nullptr || get_config == nullptr || get_core == nullptr)
    return {RETRO_ABSENT,
            "the BLAS library lacks scipy_cblas_sgemm or its thread and name functions"};
  // One thread inside BLAS: its own threading changes bits with the thread count, ours does not.
  set_threads(1);
  cpu.stream.blas.sgemm = sgemm;
  cpu.blas_name = std::string(get_config()) + " on " + get_core();
  return ok();
}

RetroStatus choose_isa(const char* name, CpuStream& cpu) {
  for (const Isa& isa : kIsas)
    if (name == nullptr ? isa.available() : std::string(name) == isa.name) cpu.isa = &isa;
  if (cpu.isa == nullptr)
    return {RETRO_INVALID, "unknown instruction-set variant; known: portable, avx2"};
  if (!cpu.isa->available()) return {RETRO_ABSENT, "this processor lacks avx2, fma or f16c"};
  return ok();
}

RetroStatus open_stream(const RetroOptions* options, RetroStream** out) {
  auto cpu = std::make_unique<CpuStream>();
  if (options->threads < 1 || options->threads > 1024)
    return invalid("threads must be between 1 and 1024");
  RetroStatus status = choose_isa(options->isa, *cpu);
  if (status.code == RETRO_OK && options->blas != nullptr) status = load_blas(options->blas, *cpu);
  if (status.code != RETRO_OK) return status;
  cpu->stream.threads = options->threads;
  try {
    cpu->pool = std::make_unique<retrograd::Pool>(options->threads);
  } catch (const std::system_error&) {
    return {RETRO_EXHAUSTED, "the system starts no more threads: ask for fewer (RETRO_THREADS)"};
  }
  cpu->stream.pool = cpu->pool.get();
  *out = reinterpret_cast<RetroStream*>(cpu.release());
  return ok();
}

void close_stream(RetroStream* stream) {
  for (const auto& [block, n_bytes] : of(stream)->blocks) munmap(block, n_bytes);
  delete of(stream);
}

RetroStatus probe(RetroStream* stream, RetroProbe* out) {
  CpuStream& cpu = *of(stream);
#ifdef RETRO_FAULTS
  const int32_t has_faults = 1;
#else
  const int32_t has_faults = 0;
#endif
  *out = {"cpu",      cpu.isa->name, cpu.blas_name.c_str(), cpu.stream.threads,
          has_faults, kCompiler,     kCompilerVersion,      kFlags};
  return ok();
}

// Pages straight from the kernel: zeroed, untouched ones cost nothing, and releasing gives them
// back at once.
RetroStatus allocate(RetroStream* stream, size_t n_bytes, void** memory) {
  *memory = nullptr;
  if (n_bytes == 0) return ok();
  void* block = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return {RETRO_EXHAUSTED, "the host is out of memory"};
#ifdef MADV_HUGEPAGE
  // Advice only: a refusal changes speed, not results.
  if (n_bytes >= kHugeBytes) madvise(block, n_bytes, MADV_HUGEPAGE);
#endif
  CpuStream& cpu = *of(stream);
  cpu.blocks[block] = n_bytes;
  cpu.counters.allocations += 1;
  cpu.counters.allocated_bytes += n_bytes;
  *memory = block;
  return ok();
}

void release(RetroStream* stream, void* memory) {
  const auto block = of(stream)->blocks.find(memory);
  if (block == of(stream)->blocks.end()) return;
  munmap(block->first, block->second);
  of(stream)->blocks.erase(block);
}

RetroStatus copy(RetroStream*, void* to, const void* from, size_t n_bytes, int32_t) {
  std::memcpy(to, from, n_bytes);
  return ok();
}

RetroStatus launch(RetroStream* stream, uint32_t row, const void* arguments) {
  CpuStream& cpu = *of(stream);
  if (row >= kRowCount) return invalid("no such kernel row");
#ifdef RETRO_FAULTS
  cpu.stream.fault_name = cpu.fault_row == kRows[row].id ? cpu.fault_name.c_str() : nullptr;
#endif
  cpu.counters.launches += 1;
  return kKernels[row][cpu.isa->variant](arguments, cpu.stream);
}

RetroStatus synchronise(RetroStream* stream) {
  of(stream)->counters.synchronisations += 1;
  return ok();
}

RetroStatus counters(RetroStream* stream, RetroCounters* out) {
  *out = of(stream)->counters;
  return ok();
}

RetroStatus set_fault([[maybe_unused]] RetroStream* stream, [[maybe_unused]] const char* fault) {
#ifdef RETRO_FAULTS
  CpuStream& cpu = *of(stream);
  const std::string text = fault == nullptr ? "" : fault;
  const size_t colon = text.rfind(':');
  if (!text.empty() && colon == std::string::npos) return invalid("a fault is written row:name");
  cpu.fault_row = text.empty() ? "" : text.substr(0, colon);
  cpu.fault_name = text.empty() ? "" : text.substr(colon + 1);
  return ok();
#else
  return {RETRO_ABSENT, "this build holds no planted faults"};
#endif
}

constexpr RetroBackend kBackend = {
    RETRO_ABI_VERSION, kRowCount, kRows, "cpu",  open_stream, close_stream, probe,
    allocate,          release,   copy,  launch, synchronise, counters,     set_fault};

}  // namespace

extern "C" __attribute__((visibility("default"))) const RetroBackend* retro_backend(void) {
  return &kBackend;
}
