#include "pool.h"

namespace retrograd {

static constexpr int kSpins = 4000;

static inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

Pool::Pool(int threads) {
  for (int worker = 1; worker < threads; ++worker)
    threads_.emplace_back([this, worker] { work(worker); });
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Pool::idle() const {
  const uint64_t state = next_.load();  // sequentially consistent: ordered with `sleepers_`
  return static_cast<uint32_t>(state) >=
         jobs_[(state >> 32) % kJobs].n.load(std::memory_order_relaxed);
}

bool Pool::take(int worker) {
  uint64_t state = next_.load(std::memory_order_acquire);
  for (;;) {
    const Job& job = jobs_[(state >> 32) % kJobs];
    const Body body = job.body.load(std::memory_order_relaxed);
    void* const context = job.context.load(std::memory_order_relaxed);
    const uint32_t index = static_cast<uint32_t>(state);
    if (index >= job.n.load(std::memory_order_relaxed)) return false;
    // Success means that the launch is still the one whose fields were
    // read: it cannot end before this index is done.
    if (next_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      body(context, index, worker);
      done_.fetch_add(1, std::memory_order_release);
      return true;
    }
  }
}

void Pool::work(int worker) {
  while (!stop_.load()) {
    if (take(worker)) continue;
    int spin = 0;
    while (spin < kSpins && idle() && !stop_.load(std::memory_order_relaxed)) {
      relax();
      ++spin;
    }
    if (spin < kSpins) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return !idle() || stop_.load(); });
    sleepers_.fetch_sub(1);
  }
}

void Pool::run(int64_t n, Body body, void* context) {
  if (threads_.empty() || n <= 1) {
    for (int64_t i = 0; i < n; ++i) body(context, i, 0);
    return;
  }
  const uint64_t launch = (next_.load() >> 32) + 1;
  Job& job = jobs_[launch % kJobs];
  job.body.store(body, std::memory_order_relaxed);
  job.context.store(context, std::memory_order_relaxed);
  job.n.store(static_cast<uint32_t>(n), std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  next_.store(launch << 32);
  if (sleepers_.load() != 0) {
    // The lock closes the gap between a helper's last look and its sleep.
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    wake_.notify_all();
  }
  while (take(0)) {
  }
  for (int spin = 0; done_.load(std::memory_order_acquire) != static_cast<uint32_t>(n); ++spin) {
    // Someone else has the last indices: let them run instead of burning this processor.
    if (spin > kSpins)
      std::this_thread::yield();
    else
      relax();
  }
}

void Stream::run(int64_t n, Body body, void* context) {
  if (pool != nullptr) return pool->run(n, body, context);
  for (int64_t i = 0; i < n; ++i) body(context, i, 0);
}

}  // namespace retrograd
