#include "agent/control/chaos_strikes.hpp"

#include <signal.h>

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <boost/asio/steady_timer.hpp>

#include "base/describe.hpp"

namespace ddprun::agent {

ChaosStrikes::ChaosStrikes(boost::asio::io_context& context, const ChaosPlan& plan,
                           const NodeMachine& machine, NodeLink* nodes, Events events)
    : context_(context),
      machine_(machine),
      nodes_(nodes),
      events_(std::move(events)),
      chaos_(plan),
      timer_(context, [this] { strike(); }) {}

void ChaosStrikes::follow() {
  const auto now = Clock::now();
  if (machine_.state() == NodeState::running && !machine_.round()->group.stopping()) {
    const proto::Round& round = machine_.round()->round;
    if (epoch_.value_or(round.epoch) != round.epoch) chaos_.service_restarted(round.world_size);
    epoch_ = round.epoch;
    chaos_.round_runs(round.number, now);
  } else {
    chaos_.round_ends(now);
  }
  timer_.follow(chaos_.deadline());
}

/// All nodes draw the same fault; each brings about what is its own.
void ChaosStrikes::strike() {
  const NodeRound& round = *machine_.round();
  if (const auto strike = chaos_.strike(round.round.world_size, Clock::now())) {
    const int local_rank = strike->rank - round.round.first_rank;
    const bool is_ours =
        local_rank >= 0 && local_rank < static_cast<int>(round.group.workers().size());
    if (strike->fault == ChaosFault::service) {
      if (nodes_->is_host()) strike_service(*strike);
    } else if (is_ours && strike->fault == ChaosFault::partition) {
      events_.notice(fmt::format("chaos: fault {}: no connection to the rendezvous for {}",
                                 strike->number, describe(strike->length)));
      nodes_->cut_off(strike->length);
    } else if (is_ours) {
      strike_worker(*strike, local_rank);
    }
  }
  timer_.follow(chaos_.deadline());
}

void ChaosStrikes::strike_worker(const ChaosStrike& strike, int local_rank) {
  const auto& workers = machine_.workers();
  const WorkerRecord& worker = workers[static_cast<std::size_t>(local_rank)];
  if (!worker.running()) return chaos_.missed(Clock::now());
  const pid_t pid = worker.pid;
  const bool kills = strike.fault == ChaosFault::kill;
  const std::string until =
      strike.fault == ChaosFault::delay ? fmt::format(" for {}", describe(strike.length)) : "";
  events_.notice(fmt::format("chaos: fault {}: {} to rank {} (pid {}){}", strike.number,
                             signal_name(kills ? SIGKILL : SIGSTOP), strike.rank, pid, until));
  kill(kills ? pid : -pid, kills ? SIGKILL : SIGSTOP);
  if (strike.fault != ChaosFault::delay) return;
  auto timer = std::make_shared<boost::asio::steady_timer>(context_, strike.length);
  timer->async_wait(
      [this, timer, number = machine_.round()->round.number, local_rank, pid](ErrorCode ec) {
        if (ec || machine_.round()->round.number != number) return;
        const WorkerRecord& delayed = machine_.workers()[static_cast<std::size_t>(local_rank)];
        if (delayed.running() && delayed.pid == pid) kill(-pid, SIGCONT);
      });
}

void ChaosStrikes::strike_service(const ChaosStrike& strike) {
  events_.notice(fmt::format(
      "chaos: fault {}: the rendezvous is killed and started again without memory", strike.number));
  const std::string problem = nodes_->kill_service();
  if (!problem.empty()) events_.failed(problem);
}

}  // namespace ddprun::agent
