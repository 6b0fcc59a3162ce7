#include "agent/worker_group.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::agent {

WorkerGroup::WorkerGroup(int workers, Clock::duration grace_period)
    : workers_(static_cast<std::size_t>(workers)), grace_period_(grace_period), live_(workers) {}

void WorkerGroup::started(int local_rank, int pid, Clock::time_point now) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.pid = pid;
  worker.started_at = now;
}

GroupActions WorkerGroup::not_started(int local_rank, const std::string& error) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.error = error;
  worker.exit = proto::WorkerExit{false, 127, false};
  --live_;
  GroupActions actions;
  proto::WorkerFailure failure;
  failure.local_rank = local_rank;
  failure.exit = *worker.exit;
  failure.error = error;
  actions.failures.push_back(std::move(failure));
  return end_if_empty(std::move(actions));
}

GroupActions WorkerGroup::exited(int local_rank, proto::WorkerExit exit, Clock::time_point now) {
  WorkerRecord& worker = workers_[static_cast<std::size_t>(local_rank)];
  worker.exit = exit;
  worker.ended_at = now;
  worker.ran_for = now - worker.started_at;
  worker.stopped_by_us = stopping_;
  --live_;
  GroupActions actions;
  if (!exit.success() && !stopping_) {
    proto::WorkerFailure failure;
    failure.local_rank = local_rank;
    failure.pid = worker.pid;
    failure.exit = exit;
    failure.ran_for = worker.ran_for;
    actions.failures.push_back(std::move(failure));
  }
  return end_if_empty(std::move(actions));
}

GroupActions WorkerGroup::end_if_empty(GroupActions actions) {
  if (live_ > 0) return actions;
  actions.ended = true;
  deadline_.reset();
  actions.all_done =
      !stopping_ && std::all_of(workers_.begin(), workers_.end(),
                                [](const WorkerRecord& worker) { return worker.exit->success(); });
  return actions;
}

GroupActions WorkerGroup::stop(int signal, Clock::time_point now) {
  GroupActions actions;
  if (live_ == 0) {
    stopping_ = true;
    actions.ended = true;
    return actions;
  }
  if (stopping_) return actions;
  stopping_ = true;
  if (grace_period_ <= Clock::duration::zero()) {
    actions.signal = SIGKILL;
  } else {
    actions.signal = signal;
    deadline_ = now + grace_period_;
  }
  return actions;
}

GroupActions WorkerGroup::kill_now() {
  GroupActions actions;
  stopping_ = true;
  deadline_.reset();
  if (live_ > 0) actions.signal = SIGKILL;
  return actions;
}

GroupActions WorkerGroup::deadline_passed(Clock::time_point now) {
  if (!deadline_ || now < *deadline_) return {};
  return kill_now();
}

}  // namespace ddprun::agent
