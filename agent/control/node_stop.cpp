// A node stops a round: its workers end, what they left ends, the core is told; then the job ends.
#include "agent/control/node_machine.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/exit_codes.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kKillLimitLeast = 200ms;
// For the last lines to reach a slow reader, and what the warden waits beyond our own limits.
constexpr auto kEndMargin = 5s;

}  // namespace

void NodeMachine::stop_when_started(Context& context) {
  auto& stop = std::get<proto::Stop>(context.event);
  stop.final = stop.final || (round_->stop && round_->stop->final);
  round_->stop = std::move(stop);
}

void NodeMachine::stop(Context& context) {
  round_->stop = std::move(std::get<proto::Stop>(context.event));
  begin_stop(context);
}

/// Answers for a round in which this node never took part, because it had left; what became of a
/// round that it has reported, the core knows.
void NodeMachine::answer_stop(Context& context) {
  const auto& stop = std::get<proto::Stop>(context.event);
  if (round_ && round_->round.number >= stop.round) return;
  context.act(Send{proto::Stopped{stop.round, {}}});
}

/// It is being stopped, and there is no more time for it.
void NodeMachine::stop_harder(Context& context) {
  if (!std::get<proto::Stop>(context.event).kill || round_->stop->kill) return;
  round_->stop->kill = true;
  const GroupActions group = round_->group.kill_now(context.now);
  if (group.signal != 0) context.act(SignalWorkers{group.signal});
  follow(context, group);
}
void NodeMachine::clear_harder(Context& context) {
  if (!std::get<proto::Stop>(context.event).kill || round_->stop->kill) return;
  round_->stop->kill = true;
  take(context, round_->leftovers.kill_now());
}

void NodeMachine::begin_stop(Context& context) {
  NodeRound& round = *round_;
  if (leaves_once_clear_) leave_by(context, *std::exchange(leaves_once_clear_, std::nullopt));
  state_ = NodeState::stopping;
  round.stopped_at = context.now;
  round.stop_signal = leaving_.value_or(SIGTERM);
  round.kept_back.clear();
  round.kept_until.reset();
  round.uneven_at.reset();
  if (leaving_) round.patience_ends = context.now + config_.stop.grace_period;
  context.act(StopWatching{});
  if (round.stop->final || leaving_) {
    context.act(EndWithin{end_limit()});
  } else if (config_.master_port == 0) {
    context.act(Prepare{});  // before the old group is gone: the new port cannot be
                             // taken by it, or meet its keys
  }
  GroupActions group = round.group.stop(round.stop_signal, context.now);
  if (round.stop->kill && !group.ended) group = round.group.kill_now(context.now);
  if (group.signal != 0) context.act(StopWorkers{group.signal, paused_, round.stop->may_save});
  follow(context, group);
}

void NodeMachine::note_conditions(Context& context) {
  const auto& workers = std::get<ConditionsSeen>(context.event).workers;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].dying && !leaving_) round_->group.already_dying(static_cast<int>(i));
    if (workers[i].suspended && !paused_) round_->group.suspended(static_cast<int>(i));
  }
}

/// After a change of the group: SIGKILL has a deadline, the user hears how long it may take, and
/// when all have ended it is the leftovers' turn.
void NodeMachine::follow(Context& context, const GroupActions& group) {
  NodeRound& round = *round_;
  if (group.signal == SIGKILL && !round.kill_deadline)
    round.kill_deadline = context.now + config_.stop.kill_timeout;
  if (group.ended) {
    round.countdown_at.reset();
    report_kept_back(context);
    if (group.all_done || round.stop) clear(context);
  } else if (group.signal != 0 && (leaving_ || round.group.killed())) {
    round.countdown_at = context.now + kCountDownEvery;
  }
}

void NodeMachine::group_deadline(Context& context) {
  warn_of_ended_workers(context);
  if (round_->kept_until && context.now >= *round_->kept_until) report_kept_back(context);
  if (round_->countdown_at && context.now >= *round_->countdown_at) count_down(context);
  const GroupActions group = round_->group.deadline_passed(context.now);
  if (group.signal != 0) {
    context.act(Notice{fmt::format("workers still run after the grace period of {}: killing them",
                                   grace_period())});
    context.act(SignalWorkers{group.signal});
  }
  follow(context, group);
}

/// The user waits for the job to end, and is told how long that may still take.
void NodeMachine::count_down(Context& context) {
  NodeRound& round = *round_;
  round.countdown_at.reset();
  if (!round.group.deadline()) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(*round.group.deadline() - context.now);
  if (left <= 0s) return;
  if (round.group.killed()) {
    context.act(NameStuck{left});
    return;
  }
  const auto& workers = round.group.workers();
  const auto running = std::count_if(workers.begin(), workers.end(),
                                     [](const auto& worker) { return worker.running(); });
  context.act(Notice{fmt::format("waiting for {} of {} workers; SIGKILL in {} s", running,
                                 workers.size(), left.count())});
  round.countdown_at = context.now + kCountDownEvery;
}

/// What the workers have left is told to end where they ended well or the user stopped them; what a
/// failed round leaves is in the way of the next one. So a stop also ends the wait after a success.
/// While SIGKILL ends them, a look would find them, though they are not stuck.
void NodeMachine::clear(Context& context) {
  state_ = round_->stop ? NodeState::clearing : NodeState::finishing;
  Leftovers& leftovers = round_->leftovers;
  if (leftovers.killing()) return;
  if (!leftovers.waiting()) {
    context.act(LookForLeftovers{});
  } else if (round_->stop->kill) {
    take(context, leftovers.kill_now());
  } else if (!leaving_) {  // the user's stop leaves them the rest of their time
    leftovers.end_patience(context.now);
  }
}

void NodeMachine::note_leftovers(Context& context) {
  const bool any = std::get<LeftoversSeen>(context.event).any;
  Leftovers& leftovers = round_->leftovers;
  if (leftovers.killing() || leftovers.over()) {  // over: seen before
    leftovers.killed();
    round_->stuck = round_->stuck || any;
    round_is_clear(context);
  } else if (!leftovers.begun()) {
    std::optional<Clock::duration> patience;
    if (round_->stop && (round_->stop->kill || round_->group.killed())) {
      patience = Clock::duration::zero();  // the user's second signal, or the grace period, is over
    } else if (round_->patience_ends) {
      patience = *round_->patience_ends - context.now;
    } else if (!round_->stop) {
      patience = config_.stop.grace_period;
    }
    take(context, leftovers.begin(any, patience, context.now));
  } else if (!any) {
    take(context, leftovers.gone());
  }
}

void NodeMachine::leftovers_deadline(Context& context) {
  take(context, round_->leftovers.deadline_passed(context.now));
}

void NodeMachine::take(Context& context, Leftovers::Step step) {
  switch (step) {
    case Leftovers::Step::nothing:
      return;
    case Leftovers::Step::terminate:
      context.act(TerminateLeftovers{round_->leftovers.patience()});
      return;
    case Leftovers::Step::kill:
      context.act(KillLeftovers{kill_limit(context.now)});
      return;
    case Leftovers::Step::over:
      round_is_clear(context);
  }
}

/// Until the job is over once it ends. The outcome may have to wait for a node that is silent.
std::chrono::milliseconds NodeMachine::end_limit() const {
  const auto own = config_.stop.grace_period + config_.stop.kill_timeout + kEndMargin;
  if (!config_.rendezvous) return own;
  std::chrono::nanoseconds others = 2 * config_.rendezvous->lease;
  if (!leaving_) others += config_.rendezvous->lost_timeout;
  return own + std::chrono::ceil<std::chrono::milliseconds>(others);
}

Clock::duration NodeMachine::kill_limit(Clock::time_point now) const {
  const auto until =
      round_ && round_->kill_deadline ? *round_->kill_deadline : now + config_.stop.kill_timeout;
  return std::max<Clock::duration>(until - now, kKillLimitLeast);
}

/// Nothing of the round is left, or only what cannot be killed.
void NodeMachine::round_is_clear(Context& context) {
  if (round_->stop) return report(context);
  context.act(Send{proto::WorkersDone{round_->round.number}});
  state_ = NodeState::done;
  if (leaves_once_clear_) leave_by(context, *std::exchange(leaves_once_clear_, std::nullopt));
}

void NodeMachine::report(Context& context) {
  // What is left may hold the GPUs' memory and the round's files: no other round beside it.
  // The reason that made us leave comes first.
  if (round_->stuck && !leaving_) {
    context.act(Send{proto::Leave{0, "processes of the last round could not be killed"}});
  }
  context.act(ReportRound{});
  const bool last = round_->stop->final || leaving_ || round_->stuck;
  state_ = last ? NodeState::ending : NodeState::waiting;
  if (last) return;
  if (config_.claimed_gpus.empty()) {
    join_again(context);
  } else {
    awaits_gpus_ = true;
    context.act(AwaitGpus{});
  }
}

void NodeMachine::join_again(Context& context) {
  awaits_gpus_ = false;
  if (prepared_) {
    send_join(context);
  } else {
    context.act(Prepare{});
  }
}

void NodeMachine::end(Context& context) {
  auto& finished = std::get<proto::Finished>(context.event);
  const bool reported = state_ == NodeState::waiting || state_ == NodeState::ending;
  stop_check(context);
  if (unsound_) {
    finished.exit_code = kExitUnsound;
    // The job may have ended before the core heard of it.
    if (finished.reason.find(*unsound_) == std::string::npos)
      context.act(Notice{"this node failed its check (--preflight): " + *unsound_});
  }
  state_ = NodeState::over;
  end_job(context, std::move(finished), round_ && !reported);
}

/// The outcome of a node that ends its part by itself has no counts: they are those that the core
/// told last.
void NodeMachine::end_job(Context& context, proto::Finished finished, bool round_open) {
  if (finished.max_restarts == 0) {
    finished.max_restarts = round_ ? round_->round.max_restarts : config_.job.restart.max_restarts;
    finished.restart_count = restart_count_;
  }
  restart_count_ = finished.restart_count;
  context.act(EndJob{std::move(finished), round_open, kill_limit(context.now)});
}

std::optional<Clock::time_point> NodeMachine::deadline() const {
  if (!round_ || state_ == NodeState::over) return std::nullopt;
  std::optional<Clock::time_point> next;
  // While leftovers of a success are waited for, it is their turn.
  const bool tells =
      state_ == NodeState::running || (state_ == NodeState::done && config_.rendezvous.has_value());
  for (const auto& one :
       {round_->group.deadline(), round_->leftovers.deadline(), round_->countdown_at,
        round_->kept_until, tells ? round_->uneven_at : std::nullopt}) {
    if (one && (!next || *one < *next)) next = one;
  }
  return next;
}

}  // namespace ddprun::agent
