// A worker pool with one caller: the thread that launches is worker 0.
//
// Indices are handed out one by one, so workers balance themselves;
// results do not depend on who takes what (see
// stream.h). The caller waits for indices, not for threads: a helper
// that the operating system does not run holds
// nothing up. Helpers spin for a few microseconds before they sleep,
// since launches follow each other closely.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "stream.h"

namespace retrograd {

class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Runs body(context, i, worker) for each i < n, n < 2^32, and returns when all are done.
  void run(int64_t n, Body body, void* context);

 private:
  // A launch. Fields are atomic because a late helper may read them
  // while a later launch reuses the place; it then
  // fails to claim an index and drops what it read.
  struct Job {
    std::atomic<Body> body{nullptr};
    std::atomic<void*> context{nullptr};
    std::atomic<uint32_t> n{0};
  };
  static constexpr uint32_t kJobs = 8;

  void work(int worker);
  bool take(int worker);  // claims and runs one index; false when none is left
  bool idle() const;

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  Job jobs_[kJobs];
  std::atomic<uint64_t> next_{0};  // launch number in the high half, next index in the low half
  std::atomic<uint32_t> done_{0};  // indices of the current launch that have been run
  std::atomic<bool> stop_{false};
};

}  // namespace retrograd
