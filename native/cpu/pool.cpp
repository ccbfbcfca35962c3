#include "pool.h"

namespace retrograd {

static constexpr int kSpins = 4000;

static inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

Pool::Pool(int threads) {
  for (int worker = 1; worker < threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
    epoch_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::drain(int worker) {
  for (int64_t i = next_.fetch_add(1); i < n_; i = next_.fetch_add(1)) body_(context_, i, worker);
}

void Pool::work(int worker) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spin) relax();
    if (epoch_.load(std::memory_order_acquire) == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return epoch_.load() != seen; });
    }
    seen = epoch_.load();
    if (stop_.load()) return;
    drain(worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void Pool::run(int64_t n, Body body, void* context) {
  if (threads_.empty() || n <= 1) {
    for (int64_t i = 0; i < n; ++i) body(context, i, 0);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    n_ = n;
    body_ = body;
    context_ = context;
    next_.store(0);
    running_.store(static_cast<int>(threads_.size()));
    epoch_.fetch_add(1);
  }
  wake_.notify_all();
  drain(0);
  for (int spin = 0; running_.load(std::memory_order_acquire) != 0; ++spin) {
    // A helper may have lost its processor: let it run instead of burning this one.
    if (spin > kSpins) std::this_thread::yield();
    else relax();
  }
}

void Stream::run(int64_t n, Body body, void* context) {
  if (pool != nullptr) return pool->run(n, body, context);
  for (int64_t i = 0; i < n; ++i) body(context, i, 0);
}

}  // namespace retrograd
