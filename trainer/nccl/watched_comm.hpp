// An NCCL communicator that is watched: NCCL's errors, peers that are gone and work that takes too
// long end it, and with it all that is under way.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/nccl/group_calls.hpp"
#include "trainer/nccl/nccl_communicator.hpp"
#include "trainer/nccl/nccl_group.hpp"
#include "trainer/nccl/under_way.hpp"

namespace ddprun::trainer::nccl {

/// Waits for NCCL and for the GPU are short at first.
inline constexpr std::chrono::microseconds kSpin{200};
inline constexpr std::chrono::microseconds kSleep{50};

/// After a failure nothing is given to NCCL any more. But for abort(), calls come from one thread.
class WatchedComm {
 public:
  /// Ends the communicator of `group` when it is destroyed. `settings` and `work`, what the group
  /// is given, outlive it.
  WatchedComm(const NcclSettings& settings, const Group& group, UnderWay& work);
  ~WatchedComm();
  WatchedComm(const WatchedComm&) = delete;
  WatchedComm& operator=(const WatchedComm&) = delete;

  [[nodiscard]] Comm get() const { return comm_; }
  [[nodiscard]] const Functions& call() const { return call_; }
  /// Whether something has failed, and what.
  [[nodiscard]] bool is_over() const { return failure_.has_value(); }
  [[nodiscard]] CommResult result() const { return *failure_; }

  /// `status` is what a call of NCCL's function `name` gave. One that puts off its answer is given
  /// the time of a sum.
  void require(Status status, const char* name);
  /// Calls of NCCL side by side: nothing is waited for or given up before the group has ended.
  /// False: something failed.
  bool in_group(const std::function<void(GroupCalls&)>& calls);

  /// Cheap; finds sums that are done, errors of NCCL, peers that are gone, sums that take too long,
  /// an abort().
  void look(Clock::time_point now);
  /// Where the host has waited for so long for this rank's GPU alone. Throws DeviceError where
  /// nothing else has a deadline.
  void look_at_own_work(Clock::duration waited);
  /// What is under way has taken too long. Throws DeviceError where this rank's own GPU hangs.
  void fail_in_time(const UnderWay::Work& work, Clock::time_point since);
  /// Makes the next look() fail. From any thread.
  void abort(const std::string& reason);

 private:
  void fail(CommResult why);
  void fail_of_peer(int gone);
  void fail_of(Status status, const char* name, const UnderWay::Work& work);
  [[noreturn]] void fail_of_own_work(const Awaited& awaited, std::chrono::duration<double> waited);
  [[nodiscard]] int rank() const { return settings_.comm.rank; }

  const NcclSettings& settings_;
  UnderWay& work_;
  const Functions& call_;
  Comm comm_;
  PeerWatch peers_;
  std::optional<Clock::time_point> gone_since_;
  std::optional<CommResult> failure_;

  std::mutex abort_mutex_;
  std::atomic<bool> aborted_{false};
  std::string abort_reason_;
};

}  // namespace ddprun::trainer::nccl
