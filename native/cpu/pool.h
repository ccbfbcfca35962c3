// A worker pool with one caller: the thread that launches is worker 0.
//
// Indices are handed out by an atomic counter, so workers balance themselves; results do not depend on who takes
// what (see stream.h). Workers spin for a few microseconds before they sleep, since launches follow each other
// closely inside a step.
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

  void run(int64_t n, Body body, void* context);

 private:
  void work(int worker);
  void drain(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> epoch_{0};    // launches started
  std::atomic<int> running_{0};       // helpers still inside the current launch
  std::atomic<int64_t> next_{0};
  int64_t n_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};
};

}  // namespace retrograd
