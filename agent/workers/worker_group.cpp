#include "agent/workers/worker_group.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::agent {

WorkerGroup::WorkerGroup(int workers, Clock::duration grace_period, Clock::duration kill_timeout,
                         const StartRound& start)
    : workers_(static_cast<std::size_t>(workers), WorkerRecord{.start = start}),
      grace_period_(grace_period),
      kill_timeout_(kill_timeout),
      live_(workers) {}

void WorkerGroup::keep(int local_rank, const WorkerRecord& kept) {
  WorkerRecord& record = record_of(local_rank);
  record.pid = kept.pid;
  record.start = kept.start;
  record.started_at = kept.started_at;
  record.keeping = Keeping::possible;
}

void WorkerGroup::started(int local_rank, int pid, Clock::time_point now) {
  WorkerRecord& record = record_of(local_rank);
  record.pid = pid;
  record.started_at = now;
}

GroupActions WorkerGroup::not_started(int local_rank, const std::string& error) {
  WorkerRecord& record = record_of(local_rank);
  record.error = error;
  record.exit = ExitStatus{false, 126, false};
  --live_;
  GroupActions actions;
  actions.failed = true;
  return end_if_empty(actions);
}

GroupActions WorkerGroup::exited(int local_rank, ExitStatus exit, Clock::time_point now,
                                 std::optional<ResourceUse> used) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  if (worker.exit) return {};  // it was given up, and has died after all
  const bool had_left = worker.waits() && stopping();
  worker.exit = exit;
  worker.used = used;
  worker.ended_at = now;
  worker.ran_for = now - worker.started_at;
  worker.stopped_by_us = stopping();
  worker.killed_by_us = killed();
  if (had_left) return {};
  --live_;
  GroupActions actions;
  actions.failed = !exit.success() && !stopping();
  return end_if_empty(actions);
}

GroupActions WorkerGroup::end_if_empty(GroupActions actions) {
  if (live_ > 0) return actions;
  actions.ended = true;
  deadline_.reset();
  actions.all_done =
      !stopping() && std::all_of(workers_.begin(), workers_.end(),
                                 [](const WorkerRecord& worker) { return worker.exit->success(); });
  return actions;
}

void WorkerGroup::already_dying(int local_rank) { record_of(local_rank).was_dying = true; }

void WorkerGroup::suspended(int local_rank) {
  WorkerRecord& record = record_of(local_rank);
  record.was_suspended = true;
  if (record.keeping == Keeping::asked) record.keeping = Keeping::no;
}

void WorkerGroup::can_wait(int local_rank, bool can) {
  WorkerRecord& record = record_of(local_rank);
  const bool has_left_unasked = record.keeping == Keeping::waits && !stopping();
  if (record.keeping <= Keeping::possible || (has_left_unasked && !can))
    record.keeping = can ? Keeping::possible : Keeping::no;
}

GroupActions WorkerGroup::stop(int signal, Clock::time_point now, bool keep) {
  GroupActions actions;
  if (live_ == 0) {
    phase_ = Phase::stopping;
    actions.ended = true;
    return actions;
  }
  if (stopping()) return actions;
  if (grace_period_ <= Clock::duration::zero()) return kill_now(now);
  phase_ = Phase::stopping;
  for (WorkerRecord& record : workers_) {
    if (!record.running()) continue;
    if (!keep) record.keeping = Keeping::no;
    if (record.keeping == Keeping::possible) record.keeping = Keeping::asked;
    if (record.keeping == Keeping::waits) --live_;
  }
  actions.signal = signal;
  deadline_ = now + grace_period_;
  return end_if_empty(actions);
}

GroupActions WorkerGroup::waits(int local_rank, std::optional<std::uint64_t> step) {
  WorkerRecord& record = record_of(local_rank);
  const bool may_wait =
      record.running() && record.keeping == (stopping() ? Keeping::asked : Keeping::possible);
  if (!may_wait) return {};
  record.keeping = Keeping::waits;
  record.step = step;
  if (!stopping()) return {};
  --live_;
  return end_if_empty({});
}

bool WorkerGroup::any_waits() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const WorkerRecord& record) { return record.waits(); });
}

GroupActions WorkerGroup::kill_now(Clock::time_point now) {
  for (WorkerRecord& record : workers_) {
    if (record.waits() && stopping()) ++live_;
    record.keeping = Keeping::no;
  }
  return kill_live(now);
}

GroupActions WorkerGroup::kill_live(Clock::time_point now) {
  for (WorkerRecord& record : workers_)
    if (record.keeping == Keeping::asked) record.keeping = Keeping::no;
  GroupActions actions;
  if (live_ == 0) return actions;
  actions.signal = SIGKILL;
  if (!killed()) deadline_ = now + kill_timeout_;
  phase_ = Phase::killed;
  return actions;
}

GroupActions WorkerGroup::deadline_passed(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return {};
  return killed() ? give_up(now) : kill_live(now);
}

GroupActions WorkerGroup::give_up(Clock::time_point now) {
  for (WorkerRecord& worker : workers_) {
    if (!worker.running() || worker.waits()) continue;
    worker.exit = ExitStatus{true, SIGKILL, false};
    worker.ended_at = now;
    worker.ran_for = now - worker.started_at;
    worker.stopped_by_us = worker.killed_by_us = true;
  }
  live_ = 0;
  return end_if_empty({});
}

}  // namespace ddprun::agent
