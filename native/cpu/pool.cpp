#include "pool.h"

#include <pthread.h>

namespace retrograd {

static constexpr int kSpins = 4000;

static inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Forks that lead to this process, counted from when the library was loaded.
static std::atomic<uint64_t> generations{0};

static void count_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generations.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
}

Pool::Pool(int threads) {
  count_forks();
  generation_ = generations.load(std::memory_order_relaxed);
  try {
    for (int worker = 1; worker < threads; ++worker)
      helpers_->threads.emplace_back([this, worker] { work(worker); });
  } catch (...) {
    stop();
    throw;
  }
}

Pool::~Pool() {
  if (forked())
    static_cast<void>(helpers_.release());
  else
    stop();
}

void Pool::stop() {
  {
    std::lock_guard<std::mutex> lock(helpers_->mutex);
    stop_.store(true);
  }
  helpers_->wake.notify_all();
  for (std::thread& thread : helpers_->threads) thread.join();
}

bool Pool::forked() const {
  return generation_ != generations.load(std::memory_order_relaxed);
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
    std::unique_lock<std::mutex> lock(helpers_->mutex);
    sleepers_.fetch_add(1);
    helpers_->wake.wait(lock, [&] { return !idle() || stop_.load(); });
    sleepers_.fetch_sub(1);
  }
}

void Pool::run(int64_t n, Body body, void* context) {
  if (helpers_->threads.empty() || n <= 1 || forked()) {
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
      std::lock_guard<std::mutex> lock(helpers_->mutex);
    }
    helpers_->wake.notify_all();
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
