// A worker pool with one caller: the thread that launches is worker 0.
//
// Indices are handed out one by one, so workers balance themselves; results do not depend on who
// takes what (see stream.h). The caller waits for indices, not for threads: a helper that the
// operating system does not run holds nothing up. Helpers spin for a few microseconds before they
// sleep, since launches follow each other closely.
//
// A forked child has no helpers, only the memory that describes them: there the caller does all
// the work, and nothing waits for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stream.h"

namespace retrograd {

class Pool {
 public:
  // Throws std::system_error when the system has no room for a thread.
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

  // The helpers and what they sleep on. Apart, since a forked child has to leave all of it as it
  // is: threads that are not there cannot be joined, and the lock may be held by one of them.
  struct Helpers {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::condition_variable wake;
  };

  void work(int worker);
  void stop();
  bool forked() const;    // whether this process is a child of the one that made the pool
  bool take(int worker);  // claims and runs one index; false when none is left
  bool idle() const;

  std::unique_ptr<Helpers> helpers_ = std::make_unique<Helpers>();
  uint64_t generation_;  // forks before this pool was made
  std::atomic<int> sleepers_{0};
  Job jobs_[kJobs];
  std::atomic<uint64_t> next_{0};  // launch number in the high half, next index in the low half
  std::atomic<uint32_t> done_{0};  // indices of the current launch that have been run
  std::atomic<bool> stop_{false};
};

}  // namespace retrograd
