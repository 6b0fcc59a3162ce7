#include "agent/events/event_log.hpp"

#include <algorithm>
#include <utility>

#include "base/overloaded.hpp"

namespace ddprun::agent {
namespace {

EventWorker worker_of(const NodeRound& round, int local_rank) {
  const WorkerRecord& record = round.group.workers()[static_cast<std::size_t>(local_rank)];
  return {round.round.first_rank + local_rank, local_rank, record.pid};
}

RoundBegan began(const proto::Round& round) {
  return {round.number,     round.restart_count, round.group_world_size,
          round.world_size, round.first_rank,    round.kept_workers,
          round.reason};
}

WorkerEnded ended(const NodeRound& round, const WorkerExited& exited) {
  const WorkerRecord& record = round.group.workers()[static_cast<std::size_t>(exited.local_rank)];
  WorkerEnded event{worker_of(round, exited.local_rank), exited.exit, {}, round.group.stopping()};
  if (exited.at) event.ran_for = *exited.at - record.started_at;
  return event;
}

}  // namespace

void EventLog::note(const NodeEvent& event, const NodeMachine& machine, Time now) {
  const NodeRound* const round = machine.round();
  std::optional<proto::RoundNumber> number;
  if (round != nullptr) number = round->round.number;
  const auto note_one = [&](Happening what) { add(std::move(what), number, now); };
  std::visit(
      Overloaded{[&](const proto::Round& next) { add(began(next), next.number, now); },
                 [&](const WorkersStarted& started) {
                   for (std::size_t i = 0; i < started.workers.size(); ++i) {
                     const StartedWorker& worker = started.workers[i];
                     const int local_rank = static_cast<int>(i);
                     const auto& keep = round->round.keep;
                     if (std::find(keep.begin(), keep.end(), local_rank) != keep.end()) continue;
                     note_one(
                         WorkerBegan{{round->round.first_rank + local_rank, local_rank, worker.pid},
                                     worker.problem});
                   }
                 },
                 [&](const WorkerWaits& waits) {
                   const WorkerRecord& record =
                       round->group.workers()[static_cast<std::size_t>(waits.local_rank)];
                   const auto may = round->group.stopping() ? Keeping::asked : Keeping::possible;
                   if (record.running() && record.keeping == may)
                     note_one(WorkerLeft{worker_of(*round, waits.local_rank), waits.step});
                 },
                 [&](const FoundHang& hang) {
                   note_one(WorkerHung{worker_of(*round, hang.local_rank), hang.message});
                 },
                 [&](const WorkerExited& exited) { note_one(ended(*round, exited)); },
                 [&](const proto::Stop& stop) { note_one(RoundStopped{stop.reason}); },
                 [&](const proto::RestartPlanned& planned) {
                   note_one(RestartAnnounced{planned.reason, planned.delay, planned.restart_count,
                                             planned.max_restarts});
                 },
                 [&](const proto::Waiting& waiting) {
                   note_one(NodesAwaited{waiting.nodes, waiting.min_nodes, waiting.max_nodes});
                 },
                 [&](const CheckEnded& check) {
                   note_one(CheckMade{check.passed, check.text});
                 },
                 [&](const JobSignal& signal) { note_one(SignalCame{signal.signal}); },
                 [&](const proto::Finished& finished) {
                   note_one(JobEnded{finished.outcome, finished.reason});
                 },
                 [](const auto&) {}},
      event);
}

void EventLog::add(Happening what, std::optional<proto::RoundNumber> round, Time now) {
  if (events_.size() == kEventsMax) events_.pop_front();
  events_.push_back({next_number_++, now, round, std::move(what)});
}

const JobEvent* EventLog::from(std::uint64_t number) const {
  if (events_.empty() || number >= next_number_) return nullptr;
  const std::uint64_t oldest = events_.front().number;
  return &events_[static_cast<std::size_t>(std::max(number, oldest) - oldest)];
}

}  // namespace ddprun::agent
