// What a rank has given to its GPU's communication stream and has not yet seen done.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/cuda/gpu.hpp"
#include "trainer/nccl/failures.hpp"

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

/// Sums, the oldest first, and a meeting of all ranks behind them.
class UnderWay {
 public:
  struct Work {
    Awaited awaited;
    cuda::Event computed;  ///< before it, on this rank's compute stream
  };

  explicit UnderWay(cuda::Gpu& gpu) : gpu_(gpu), events_(gpu), computed_(gpu.make_event()) {}

  /// From here to started() NCCL is given a sum.
  void start(int bucket) {
    const cuda::Event computed = events_.take();
    after_compute(computed);
    starting_ = {bucket, computed};
  }
  void started(Ticket ticket, Clock::time_point now) {
    sums_.push_back({ticket, starting_->bucket, starting_->computed, events_.take(), now});
    starting_.reset();
    gpu_.record(sums_.back().done, cuda::Stream::communication);
  }
  /// From here to end_meeting() the host waits for all ranks.
  void begin_meeting() {
    meets_ = true;
    after_compute(computed_);
  }
  void end_meeting() { meets_ = false; }

  /// What the compute stream is given from now on comes after this sum.
  void follow(Ticket ticket) {
    for (const Sum& one : sums_)
      if (one.ticket == ticket) gpu_.wait(cuda::Stream::compute, one.done);
  }
  void forget_done(Clock::time_point now) {
    while (has_sums() && gpu_.has_come(sums_.front().done)) {
      forget_oldest();
      if (has_sums()) sums_.front().since = std::max(sums_.front().since, now);
    }
  }
  /// An event that comes when all that is under way is done.
  cuda::Event record_end() {
    const cuda::Event end = events_.take();
    gpu_.record(end, cuda::Stream::communication);
    return end;
  }
  /// `end`, which record_end() gave, has come.
  void forget_all(cuda::Event end) {
    events_.give_back(end);
    while (has_sums()) forget_oldest();
  }

  [[nodiscard]] bool has_sums() const { return !sums_.empty(); }
  /// From when the oldest sum is the oldest. Requires one.
  [[nodiscard]] Clock::time_point since() const { return sums_.front().since; }
  /// Whether other ranks are waited for.
  [[nodiscard]] bool is_waiting() const { return has_sums() || meets_; }
  [[nodiscard]] bool is_nothing() const { return !is_waiting() && !starting_; }

  /// What the communication stream does first: the oldest sum, or the one that NCCL is being given,
  /// or the meeting behind them.
  [[nodiscard]] Work first() const {
    if (has_sums()) return {{.bucket = sums_.front().bucket}, sums_.front().computed};
    if (starting_) return {{.bucket = starting_->bucket}, starting_->computed};
    return {{.is_meeting = meets_}, computed_};
  }
  /// What a call of NCCL is for that is made now.
  [[nodiscard]] Work asked_for() const {
    return starting_ ? Work{{.bucket = starting_->bucket}, starting_->computed} : first();
  }

 private:
  struct Starting {
    int bucket;
    cuda::Event computed;
  };
  struct Sum {
    Ticket ticket;
    int bucket;
    cuda::Event computed;  ///< before it, on the compute stream
    cuda::Event done;
    Clock::time_point since;  ///< from when it is the oldest
  };

  /// What the communication stream is given from now on comes after what the compute stream has.
  void after_compute(cuda::Event computed) {
    gpu_.record(computed, cuda::Stream::compute);
    gpu_.wait(cuda::Stream::communication, computed);
  }
  void forget_oldest() {
    for (const cuda::Event event : {sums_.front().computed, sums_.front().done})
      events_.give_back(event);
    sums_.pop_front();
  }

  cuda::Gpu& gpu_;
  EventPool events_;
  cuda::Event computed_;  // before the last meeting
  std::optional<Starting> starting_;
  std::deque<Sum> sums_;
  bool meets_ = false;
};

}  // namespace ddprun::trainer::nccl
