// What a process with a rendezvous service tells its agents, and what that must follow from.
#include "tests/sim/sim_process.hpp"

#include "proto/fit_frame.hpp"
#include "tests/sim/sim_channel.hpp"

namespace ddprun::sim {

using rdzv::ConnectionId;

const rdzv::Job* SimProcess::job_of_core() const { return core_ ? core_->job(kRunId) : nullptr; }

SimProcess::Known SimProcess::known(const std::optional<rdzv::ServiceCore>& core) {
  Known known;
  const rdzv::Job* job = core->job(kRunId);
  if (job == nullptr) return known;
  known.deadline = job->deadline();
  known.sessions = job->sessions().size();
  if (const rdzv::Membership* members = job->membership()) {
    known.next_round = members->next_round();
    known.restart_count = members->restart_count();
  }
  return known;
}

void SimProcess::check_cause(const rdzv::ServiceActions& actions) {
  if (known(core_) != known(durable_)) broken_ = "all that has happened is durable";
  std::map<ConnectionId, const proto::ServiceMessage*> last;
  for (const rdzv::ServiceSend& send : actions.sends) {
    const auto* message = std::get_if<proto::MembershipMessage>(&send.message);
    const bool is_state = message == nullptr || std::holds_alternative<proto::Round>(*message) ||
                          std::holds_alternative<proto::Stop>(*message) ||
                          std::holds_alternative<proto::Finished>(*message);
    if (is_state) last[send.to] = &send.message;
  }
  for (const auto& [to, message] : last) check_cause(wires_.at(to), *message);
}

void SimProcess::check_cause(const Wire& wire, const proto::ServiceMessage& message) {
  const rdzv::Job* job = durable_->job(kRunId);
  const rdzv::Job::Session* session = job != nullptr ? job->session(wire.session) : nullptr;
  const auto require = [this](bool holds, const char* what) {
    if (!holds) broken_ = what;
  };
  if (const auto* welcome = std::get_if<proto::Welcome>(&message)) {
    require(!welcome->resumed || (session != nullptr && job->epoch() == welcome->epoch &&
                                  session->acknowledged == welcome->acknowledged),
            "a session that goes on is durable");
  } else if (const auto* alive = std::get_if<proto::Alive>(&message)) {
    require(session != nullptr && session->acknowledged == alive->acknowledged,
            "what is acknowledged is durable");
  } else if (std::holds_alternative<proto::MembershipMessage>(message)) {
    // The last word to an agent of which the session is over is in no session.
    if (session == nullptr) return;
    const auto current = job->current(wire.session);
    require(current && proto::encode(proto::ServiceMessage(*current)) == proto::encode(message),
            "what an agent is told is durable");
  }
}

void SimProcess::tell(rdzv::ServiceActions& actions) {
  for (rdzv::ServiceSend& send : actions.sends) {
    Wire& wire = wires_.at(send.to);
    if (!wire.channel) continue;
    static_cast<void>(wire.channel->send(proto::encode_to_fit(send.message)));
    send_output(send.to, wire);
  }
  for (const ConnectionId id : actions.closes) {
    Wire& wire = wires_.at(id);
    if (wire.channel) close(id, wire);
  }
}

void SimProcess::close_all() {
  for (auto& [id, wire] : wires_)
    if (wire.channel) close(id, wire);
}

void SimProcess::stop_core() {
  core_.reset();
  deadline_.reset();
}

void SimProcess::follow_deadline() {
  if (deadline_ == core_->deadline()) return;
  deadline_ = core_->deadline();
  if (deadline_)
    world_.at(in_world(*deadline_), [this, when = *deadline_] { deadline_passed(when); });
}

void SimProcess::deadline_passed(Clock::time_point when) {
  if (deadline_ != when) return;
  if (const auto busy = busy_for())
    return world_.after(*busy, [this, when] { deadline_passed(when); });
  deadline_.reset();
  on(rdzv::DeadlinePassed{});
}

}  // namespace ddprun::sim
