// The faults of --chaos, brought about in the workers of this node.
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

void Agent::on_chaos() {
  const proto::Round& round = machine_.round()->round;
  const auto strike = chaos_->strike(round.world_size, Clock::now());
  const int local_rank = strike ? strike->rank - round.first_rank : -1;
  const bool is_ours = local_rank >= 0 && local_rank < static_cast<int>(workers().size());
  const WorkerRecord* worker = is_ours ? &workers()[static_cast<std::size_t>(local_rank)] : nullptr;
  if (worker != nullptr && !worker->running()) {
    chaos_->missed(Clock::now());
  } else if (worker != nullptr) {
    const pid_t pid = worker->pid;
    const bool kills = strike->fault == ChaosFault::kill;
    const std::string until =
        strike->fault == ChaosFault::delay ? fmt::format(" for {}", describe(strike->length)) : "";
    notice(fmt::format("chaos: fault {}: {} to rank {} (pid {}){}", strike->number,
                       signal_name(kills ? SIGKILL : SIGSTOP), strike->rank, pid, until));
    kill(kills ? pid : -pid, kills ? SIGKILL : SIGSTOP);
    if (strike->fault == ChaosFault::delay) {
      auto timer = std::make_shared<asio::steady_timer>(context_, strike->length);
      timer->async_wait([this, timer, number = round.number, local_rank, pid](ErrorCode ec) {
        if (ec || machine_.round()->round.number != number) return;
        const WorkerRecord& delayed = workers()[static_cast<std::size_t>(local_rank)];
        if (delayed.running() && delayed.pid == pid) kill(-pid, SIGCONT);
      });
    }
  }
  chaos_timer_.follow(chaos_->deadline());
}

}  // namespace ddprun::agent
