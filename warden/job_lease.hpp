// The part of a node in a job of several nodes, as the warden guards it: the lease under which its
// workers may run, and the connection to the rendezvous: if it ends in order, nothing of the job is
// left here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::warden {

/// Until when workers may run, in memory that the agent writes and the warden reads: an agent that
/// is stopped or hangs cannot keep them alive. By CLOCK_BOOTTIME.
class LeasePage {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// To be shared with a child that is forked later. Errors: the system's.
  static Result<LeasePage> make();
  LeasePage(LeasePage&& other) noexcept;
  LeasePage& operator=(LeasePage&&) = delete;
  ~LeasePage();

  void set(TimePoint until) { page_->store(until.time_since_epoch().count()); }
  /// No lease counts from now on: no workers run.
  void clear() { page_->store(0); }
  /// None: there is no lease.
  [[nodiscard]] std::optional<TimePoint> until() const;

 private:
  using Page = std::atomic<std::int64_t>;
  static_assert(Page::is_always_lock_free, "it is shared by two processes");
  explicit LeasePage(Page* page) : page_(page) {}
  Page* page_;
};

/// The warden's duplicate of the agent's connection. As long as it is held, the end of the agent
/// does not end the connection.
class HeldConnection {
 public:
  /// Instead of the one before, which ends by a reset where this is its last owner.
  void hold(UniqueFd socket);
  /// Nothing of the job is left on this node.
  void end_in_order();
  /// Something may be left: the end proves nothing.
  void reset();

 private:
  UniqueFd socket_;
};

}  // namespace ddprun::warden
