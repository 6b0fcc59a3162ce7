// The sums that a rank has given to its GPU and has not yet seen done, the oldest first.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/cuda/gpu.hpp"

namespace ddprun::trainer::nccl {

/// Events of a GPU that are used again: making one costs a call of the driver.
class EventPool {
 public:
  explicit EventPool(cuda::Gpu& gpu) : gpu_(gpu) {}

  cuda::Event take() {
    if (free_.empty()) return gpu_.make_event();
    const cuda::Event event = free_.back();
    free_.pop_back();
    return event;
  }
  /// One that has come, or that nobody waits for any more.
  void give_back(cuda::Event event) { free_.push_back(event); }

 private:
  cuda::Gpu& gpu_;
  std::vector<cuda::Event> free_;
};

class StartedSums {
 public:
  struct Sum {
    Ticket ticket;
    int bucket;
    cuda::Event computed;  ///< before it, on the compute stream
    cuda::Event done;
    Clock::time_point since;  ///< from when it is the oldest
  };

  StartedSums(cuda::Gpu& gpu, EventPool& events) : gpu_(gpu), events_(events) {}

  [[nodiscard]] bool empty() const { return sums_.empty(); }
  [[nodiscard]] const Sum& oldest() const { return sums_.front(); }

  /// It was given to the communication stream just now. `computed`: of the pool.
  void add(Ticket ticket, int bucket, cuda::Event computed, Clock::time_point now) {
    sums_.push_back({ticket, bucket, computed, events_.take(), now});
    gpu_.record(sums_.back().done, cuda::Stream::communication);
  }
  /// What the compute stream is given from now on comes after this sum.
  void follow(Ticket ticket) {
    for (const Sum& one : sums_)
      if (one.ticket == ticket) gpu_.wait(cuda::Stream::compute, one.done);
  }
  void forget_done(Clock::time_point now) {
    while (!empty() && gpu_.has_come(oldest().done)) {
      forget_oldest();
      if (!empty()) sums_.front().since = std::max(oldest().since, now);
    }
  }
  /// They are known to be done.
  void forget_all() {
    while (!empty()) forget_oldest();
  }

 private:
  void forget_oldest() {
    for (const cuda::Event event : {oldest().computed, oldest().done}) events_.give_back(event);
    sums_.pop_front();
  }

  cuda::Gpu& gpu_;
  EventPool& events_;
  std::deque<Sum> sums_;
};

}  // namespace ddprun::trainer::nccl
