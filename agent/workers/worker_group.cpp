#include "agent/workers/worker_group.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::agent {

WorkerGroup::WorkerGroup(int workers, Clock::duration grace_period, Clock::duration kill_timeout)
    : workers_(static_cast<std::size_t>(workers)),
      grace_period_(grace_period),
      kill_timeout_(kill_timeout),
      live_(workers) {}

void WorkerGroup::started(int local_rank, int pid, Clock::time_point now) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.pid = pid;
  worker.started_at = now;
}

GroupActions WorkerGroup::not_started(int local_rank, const std::string& error) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.error = error;
  worker.exit = ExitStatus{false, 126, false};
  --live_;
  GroupActions actions;
  actions.failed = true;
  return end_if_empty(actions);
}

GroupActions WorkerGroup::exited(int local_rank, ExitStatus exit, Clock::time_point now,
                                 std::optional<ResourceUse> used) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  if (worker.exit) return {};  // it was given up, and has died after all
  worker.exit = exit;
  worker.used = used;
  worker.ended_at = now;
  worker.ran_for = now - worker.started_at;
  worker.stopped_by_us = stopping();
  worker.killed_by_us = killed();
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

void WorkerGroup::already_dying(int local_rank) {
  workers_[static_cast<std::size_t>(local_rank)].was_dying = true;
}

void WorkerGroup::suspended(int local_rank) {
  workers_[static_cast<std::size_t>(local_rank)].was_suspended = true;
}

GroupActions WorkerGroup::stop(int signal, Clock::time_point now) {
  GroupActions actions;
  if (live_ == 0) {
    phase_ = Phase::stopping;
    actions.ended = true;
    return actions;
  }
  if (stopping()) return actions;
  if (grace_period_ <= Clock::duration::zero()) return kill_now(now);
  phase_ = Phase::stopping;
  actions.signal = signal;
  deadline_ = now + grace_period_;
  return actions;
}

GroupActions WorkerGroup::kill_now(Clock::time_point now) {
  GroupActions actions;
  if (live_ == 0) return actions;
  actions.signal = SIGKILL;
  if (!killed()) deadline_ = now + kill_timeout_;
  phase_ = Phase::killed;
  return actions;
}

GroupActions WorkerGroup::deadline_passed(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return {};
  return killed() ? give_up(now) : kill_now(now);
}

GroupActions WorkerGroup::give_up(Clock::time_point now) {
  for (WorkerRecord& worker : workers_) {
    if (worker.exit || worker.pid <= 0) continue;
    worker.exit = ExitStatus{true, SIGKILL, false};
    worker.ended_at = now;
    worker.ran_for = now - worker.started_at;
    worker.stopped_by_us = worker.killed_by_us = true;
  }
  live_ = 0;
  return end_if_empty({});
}

}  // namespace ddprun::agent
