#include "trainer/nccl/watched_comm.hpp"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "trainer/error.hpp"
#include "trainer/nccl/failures.hpp"

namespace ddprun::trainer::nccl {
namespace {

using namespace std::chrono_literals;

/// A rank that has ended may have done its part of what is waited for: that may still arrive.
constexpr auto kLastWords = 250ms;

/// Whether a condition holds now or within this time.
template <class Condition>
bool comes_within(Clock::duration time, Condition condition) {
  const auto until = Clock::now() + time;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

}  // namespace

WatchedComm::WatchedComm(const NcclSettings& settings, const Group& group, UnderWay& work)
    : settings_(settings),
      work_(work),
      call_(settings.library->call()),
      comm_(group.comm),
      peers_(group.ranks, settings.comm.rank) {}

WatchedComm::~WatchedComm() {
  if (comm_ == nullptr) return;
  // In order only if nothing is under way and nobody has left: NCCL would wait for the others.
  if (failure_ || aborted_ || work_.has_sums() || peers_.ended(Clock::now()) >= 0) {
    abort_comm(call_, comm_, settings_.calls, abort_reason_);
  } else {
    destroy_comm(call_, comm_, settings_.calls);
  }
}

void WatchedComm::require(Status status, const char* name) {
  const auto began = Clock::now();
  while (status == Status::in_progress && !is_over()) {
    if (call_.comm_get_async_error(comm_, &status) != Status::success) break;
    if (status != Status::in_progress) break;
    look(Clock::now());
    const auto waited = Clock::now() - began;
    if (waited >= settings_.timeout) return fail_in_time(work_.asked_for(), began);
    // Most calls are answered so by NCCL; meanwhile backward gives the GPU no work.
    if (waited > kSpin) std::this_thread::sleep_for(kSleep);
  }
  if (status != Status::success && !is_over()) fail_of(status, name, work_.asked_for());
}

bool WatchedComm::in_group(const std::function<void(GroupCalls&)>& calls) {
  if (is_over()) return false;
  require(call_.group_start(), "ncclGroupStart");
  if (is_over()) return false;
  GroupCalls group(call_, comm_, settings_.gpu.native(cuda::Stream::communication));
  calls(group);
  const Status ended = call_.group_end();
  const GroupCalls::Failure& failure = group.failure();
  if (failure.status != Status::success) {
    fail_of(failure.status, failure.name, work_.asked_for());
  } else {
    require(ended, "ncclGroupEnd");
  }
  return !is_over();
}

void WatchedComm::look(Clock::time_point now) {
  if (is_over()) return;
  if (aborted_) {
    const std::lock_guard lock(abort_mutex_);
    return fail({CommStatus::aborted, -1, -1,
                 fmt::format("aborted by rank {}: {}", rank(), abort_reason_)});
  }
  work_.forget_done(now);
  Status status = Status::success;
  if (call_.comm_get_async_error(comm_, &status) != Status::success ||
      (status != Status::success && status != Status::in_progress))
    return fail_of(status, "NCCL", work_.first());
  if (const int gone = work_.is_waiting() ? peers_.ended(now) : -1; gone >= 0) {
    if (!gone_since_) gone_since_ = now;
    if (now - *gone_since_ > kLastWords) return fail_of_peer(gone);
  }
  if (work_.has_sums() && now - work_.since() > settings_.timeout)
    fail_in_time(work_.first(), work_.since());
}

void WatchedComm::look_at_own_work(Clock::duration waited) {
  if (is_over() || !work_.is_nothing() || waited < settings_.timeout) return;
  fail_of_own_work({}, waited);
}

void WatchedComm::abort(const std::string& reason) {
  const std::lock_guard lock(abort_mutex_);
  if (aborted_) return;
  abort_reason_ = reason;
  aborted_ = true;
}

void WatchedComm::fail_of_peer(int gone) {
  fail(peer_ended(gone, peers_.pid(gone), work_.first().awaited));
}

void WatchedComm::fail_of(Status status, const char* name, const UnderWay::Work& work) {
  // A peer that is gone is the cause of what NCCL tells.
  int gone = -1;
  if (comes_within(kLastWords, [&] { return (gone = peers_.ended(Clock::now())) >= 0; }))
    return fail_of_peer(gone);
  const cuda::GpuFacts facts = settings_.gpu.facts();
  fail(nccl_failed(name, work.awaited, fmt::format("{} {}", facts.name, facts.uuid),
                   call_.get_error_string(status), call_.get_last_error(comm_)));
}

void WatchedComm::fail_in_time(const UnderWay::Work& work, Clock::time_point since) {
  const std::chrono::duration<double> waited = Clock::now() - since;
  // What the GPU does just now is no hang.
  if (comes_within(kLastWords, [&] { return settings_.gpu.has_come(work.computed); }))
    return fail(waited_too_long(rank(), work.awaited, waited));
  fail_of_own_work(work.awaited, waited);
}

/// Nothing can be returned: the call that waits for this GPU never ends.
void WatchedComm::fail_of_own_work(const Awaited& awaited, std::chrono::duration<double> waited) {
  const std::string text = own_work_hangs(awaited, waited);
  failure_ = CommResult{CommStatus::aborted, rank(), awaited.bucket, text};
  comm_ = nullptr;  // not aborted: NCCL would wait for its kernels, which come after that work
  throw DeviceError(text);
}

/// Ends what is under way, so that the GPU's streams go on.
void WatchedComm::fail(CommResult why) {
  failure_ = std::move(why);
  abort_comm(call_, std::exchange(comm_, nullptr), settings_.calls, failure_->detail);
}

}  // namespace ddprun::trainer::nccl
