// The faults of --chaos, brought about in the workers of this node and in its rendezvous.
#include <signal.h>

#include <memory>

#include <fmt/format.h>
#include <boost/asio/steady_timer.hpp>

#include "agent/control/agent_loop.hpp"
#include "base/describe.hpp"

namespace ddprun::agent {

void Agent::follow_chaos() {
  const auto now = Clock::now();
  if (machine_.state() == NodeState::running && !machine_.round()->group.stopping()) {
    chaos_->round_runs(machine_.round()->round.number, now);
  } else {
    chaos_->round_ends(now);
  }
  chaos_timer_.follow(chaos_->deadline());
}

/// All nodes draw the same fault; each brings about what is its own.
void Agent::on_chaos() {
  const proto::Round& round = machine_.round()->round;
  if (const auto strike = chaos_->strike(round.world_size, Clock::now())) {
    const int local_rank = strike->rank - round.first_rank;
    const bool is_ours = local_rank >= 0 && local_rank < static_cast<int>(workers().size());
    if (strike->fault == ChaosFault::service) {
      if (nodes_->is_host()) strike_service(*strike);
    } else if (is_ours && strike->fault == ChaosFault::partition) {
      notice(fmt::format("chaos: fault {}: no connection to the rendezvous for {}", strike->number,
                         describe(strike->length)));
      nodes_->cut_off(strike->length);
    } else if (is_ours) {
      strike_worker(*strike, local_rank);
    }
  }
  chaos_timer_.follow(chaos_->deadline());
}

void Agent::strike_worker(const ChaosStrike& strike, int local_rank) {
  const WorkerRecord& worker = workers()[static_cast<std::size_t>(local_rank)];
  if (!worker.running()) return chaos_->missed(Clock::now());
  const pid_t pid = worker.pid;
  const bool kills = strike.fault == ChaosFault::kill;
  const std::string until =
      strike.fault == ChaosFault::delay ? fmt::format(" for {}", describe(strike.length)) : "";
  notice(fmt::format("chaos: fault {}: {} to rank {} (pid {}){}", strike.number,
                     signal_name(kills ? SIGKILL : SIGSTOP), strike.rank, pid, until));
  kill(kills ? pid : -pid, kills ? SIGKILL : SIGSTOP);
  if (strike.fault != ChaosFault::delay) return;
  auto timer = std::make_shared<asio::steady_timer>(context_, strike.length);
  timer->async_wait(
      [this, timer, number = machine_.round()->round.number, local_rank, pid](ErrorCode ec) {
        if (ec || machine_.round()->round.number != number) return;
        const WorkerRecord& delayed = workers()[static_cast<std::size_t>(local_rank)];
        if (delayed.running() && delayed.pid == pid) kill(-pid, SIGCONT);
      });
}

void Agent::strike_service(const ChaosStrike& strike) {
  notice(fmt::format("chaos: fault {}: the rendezvous is killed and started again without memory",
                     strike.number));
  const std::string problem = nodes_->kill_service();
  if (!problem.empty()) handle(CannotGoOn{problem});
}

}  // namespace ddprun::agent
