// Connections, what is heard on them, and the jobs that it is for.
#include "rendezvous/service/service_core.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "proto/run_id.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;
using proto::AgentId;
using proto::Refused;

namespace {

/// By which a host is known again. That of a forwarder belongs to many.
std::string own_addr(bool is_direct, const std::string& addr) { return is_direct ? addr : ""; }

}  // namespace

ServiceActions ServiceCore::on(const ServiceEvent& event, Clock::time_point now) {
  ServiceActions actions;
  Context context{now, actions};
  std::visit([&](const auto& one) { take(one, context); }, event);
  if (settings_.snapshots) take_snapshots(context);
  return actions;
}

std::optional<Clock::time_point> ServiceCore::deadline() const {
  std::optional<Clock::time_point> next = check_at_;
  const auto sooner = [&](Clock::time_point at) { next = std::min(next.value_or(at), at); };
  if (!deadlines_.empty()) sooner(deadlines_.begin()->first);
  if (!ended_.empty()) sooner(ended_.front().evict_at);
  return next;
}

// ---- connections ----

void ServiceCore::take(const ConnectionOpened& opened, Context& context) {
  if (!settings_.only_run_id.empty() && !opened.run_id.empty() &&
      opened.run_id != settings_.only_run_id) {
    tell_of_refusal(
        settings_.only_run_id, opened.addr,
        fmt::format("it is for the job {}, this job is {}", proto::named_job(opened.run_id),
                    proto::named_job(settings_.only_run_id)),
        context);
    refuse(opened.connection, Refused::Why::other_job,
           fmt::format("this rendezvous serves the job {} only",
                       proto::named_job(settings_.only_run_id)),
           context);
    return;
  }
  connections_[opened.connection] = {opened.run_id, opened.addr, opened.path, {}, false};
}

void ServiceCore::take(const ConnectionRefused& refused, Context& context) {
  const char* why = "it has another --rdzv-secret-file than the rendezvous, or none";
  if (refused.lack == Lack::encryption) {
    why = "it does not encrypt its connections; it needs --rdzv-tls";
  } else if (settings_.secret_by_munge) {
    why = "it has not proven by MUNGE that it is of the rendezvous's user";
  }
  tell_of_refusal(refused.run_id, refused.addr, why, context);
}

/// Those that wait for nodes may wait for this one, which was started with a wrong option. Anybody
/// can make such connections, so they are told seldom.
void ServiceCore::tell_of_refusal(const std::string& run_id, const std::string& addr,
                                  const std::string& why, Context& context) {
  const auto entry = jobs_.find(run_id);
  if (entry == jobs_.end()) return;
  std::string line = fmt::format("a connection from {} was refused: {}", addr, why);
  if (line == told_refusal_ || context.now < told_refusal_at_ + kRefusalsToldEvery) return;
  told_refusal_ = line;
  told_refusal_at_ = context.now;
  std::size_t told = 0;
  for (const auto& [agent, session] : entry->second.job.sessions()) {
    const Membership* membership = entry->second.job.membership();
    if (!session.contact.connection || membership == nullptr || membership->current(agent))
      continue;
    if (told++ == Roster::kNotifiedMax) break;
    context.actions.sends.push_back(
        {*session.contact.connection, proto::MembershipMessage(proto::Remark{line})});
  }
  if (told == 0) told_refusal_.clear();  // the first that waits has to hear of it
}

void ServiceCore::take(const ClientSaid& said, Context& context) {
  const auto connection = connections_.find(said.connection);
  if (connection == connections_.end()) return;  // it was refused, and is being closed
  Connection& from = connection->second;
  if (!from.agent.empty()) {
    Job::Contact& contact = jobs_.at(from.run_id).job.contact(from.agent);
    contact.heard_at = context.now;
    contact.since_start = false;
  }
  std::visit([&](const auto& message) { hear(said.connection, from, message, context); },
             said.message);
}

void ServiceCore::take(const ConnectionEnded& ended, Context& context) {
  const auto found = connections_.find(ended.connection);
  if (found == connections_.end()) return;
  const Connection connection = std::move(found->second);
  connections_.erase(found);
  if (connection.agent.empty()) return;
  jobs_.at(connection.run_id).job.contact(connection.agent).connection.reset();
  if (ended.cleanly && connection.is_direct)
    ended_.push_back({context.now + kEndMargin, connection.run_id, connection.agent});
}

void ServiceCore::refuse(ConnectionId id, Refused::Why why, std::string reason, Context& context) {
  context.actions.sends.push_back({id, Refused{why, std::move(reason)}});
  drop(id, context);
}

void ServiceCore::drop(ConnectionId id, Context& context) {
  take(ConnectionEnded{id, false}, context);
  context.actions.closes.push_back(id);
}

// ---- messages ----

void ServiceCore::hear(ConnectionId id, Connection&, const proto::Prove&, Context& context) {
  refuse(id, Refused::Why::broken, "an unexpected proof", context);
}

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::Resume& resume,
                       Context& context) {
  if (from.run_id.empty() || resume.agent.empty() || !from.agent.empty()) {
    refuse(id, Refused::Why::broken, "resume is not allowed here", context);
    return;
  }
  if (settings_.tenant_limits && names_many(from.run_id)) {
    refuse(id, Refused::Why::broken,
           fmt::format("the id of a job must not end with '{}' where each tenant has a secret: "
                       "such a name stands for many jobs",
                       kAnyEnd),
           context);
    return;
  }
  from.is_direct = !from.path.empty() && from.path == resume.path;
  auto found = jobs_.find(from.run_id);
  const bool is_past = resume.epoch && context.now < began_at_ + silence_allowed(lease_for(resume));
  if (found == jobs_.end() && resume.epoch && !is_past) {
    welcome(id, resume, from, Entry(context.now), false, context);
    return;
  }
  if (found == jobs_.end()) {
    if (std::string full = why_tenant_is_full(from.run_id, true); !full.empty())
      return refuse(id, Refused::Why::limit, std::move(full), context);
    if (!make_room(context.actions)) {
      refuse(id, Refused::Why::limit,
             fmt::format("this rendezvous has {} jobs, more than it may have", jobs_.size()),
             context);
      return;
    }
    found = jobs_.try_emplace(from.run_id, context.now).first;
    begin_job(from.run_id, found->second, std::max(lease_for(resume), settings_.lease), context);
  }
  Entry& entry = found->second;
  if (is_outdated(entry, resume)) lose_memory(from.run_id, entry, lease_for(resume), context);
  const bool is_known = entry.job.session(resume.agent) != nullptr;
  if (!is_known && resume.epoch) {
    hear_of_past(from.run_id, entry, *resume.epoch, lease_for(resume), context);
    welcome(id, resume, from, entry, false, context);
    return;
  }
  // A service that ends with its job must not take up the next one.
  if (!is_known && !settings_.only_run_id.empty() &&
      entry.job.was_over_before(context.now - resume.age)) {
    refuse(id, Refused::Why::limit,
           fmt::format("it ends with its job {}, which is over", proto::named_job(from.run_id)),
           context);
    return;
  }
  if (!is_known && entry.job.sessions().size() >= settings_.sessions_per_job_max) {
    refuse(id, Refused::Why::limit,
           fmt::format("the job {} has {} nodes, more than this rendezvous allows",
                       proto::named_job(from.run_id), entry.job.sessions().size()),
           context);
    return;
  }
  if (!is_known) {
    if (std::string full = why_tenant_is_full(from.run_id, entry.job.is_idle()); !full.empty())
      return refuse(id, Refused::Why::limit, std::move(full), context);
    if (entry.job.session(resume.replaces) != nullptr)
      end_session(from.run_id, entry, resume.replaces, proto::LossSign::cut_off, context);
    record(from.run_id, entry,
           SessionBegan{resume.agent, own_addr(from.is_direct, from.addr), lease_for(resume),
                        resume.age},
           context);
  }
  Job::Contact& contact = entry.job.contact(resume.agent);
  if (contact.connection) drop(*contact.connection, context);
  contact = {id, context.now};
  from.agent = resume.agent;
  context.actions.attached.push_back(id);
  expect_word_of(*entry.job.session(resume.agent));
  welcome(id, resume, from, entry, is_known, context);
  if (auto current = entry.job.current(resume.agent))
    context.actions.sends.push_back({id, std::move(*current)});
}

void ServiceCore::welcome(ConnectionId id, const proto::Resume& resume, const Connection& to,
                          const Entry& entry, bool resumed, Context& context) {
  proto::Welcome welcome;
  welcome.epoch = entry.job.epoch();
  welcome.resumed = resumed;
  welcome.direct = to.is_direct && !settings_.has_standbys;
  welcome.restarts = true;
  welcome.in_agent = !settings_.only_run_id.empty() && !settings_.has_standbys;
  welcome.job_time = entry.job.age(context.now);
  welcome.clock = settings_.clock;
  const Job::Session* session = entry.job.session(resume.agent);
  if (session != nullptr) welcome.acknowledged = session->acknowledged;
  welcome.lease = session != nullptr ? session->lease : lease_for(resume);
  welcome.keep_alive_period = welcome.lease / kKeepAlivesPerLease;
  context.actions.sends.push_back({id, std::move(welcome)});
}

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::Numbered& numbered,
                       Context& context) {
  if (from.agent.empty()) {
    refuse(id, Refused::Why::broken, "a message of no session", context);
    return;
  }
  Entry& entry = jobs_.at(from.run_id);
  const Job::Session& session = *entry.job.session(from.agent);
  if (numbered.seq <= session.acknowledged) return;  // sent again, and known
  if (numbered.seq > session.acknowledged + 1) {
    refuse(id, Refused::Why::broken,
           fmt::format("message {} came after message {}", numbered.seq, session.acknowledged),
           context);
    return;
  }
  if (const auto* join = std::get_if<proto::Join>(&numbered.message)) {
    if (join->was_in) hear_of_past(from.run_id, entry, join->was_in->epoch, session.lease, context);
    drop_before_reboot(from.run_id, entry, *join, own_addr(from.is_direct, from.addr), context);
  }
  record(from.run_id, entry, Said{from.agent, numbered.message}, context);
}

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::KeepAlive& keep_alive,
                       Context& context) {
  if (from.agent.empty()) return;  // it is being told that its session is unknown
  const Entry& entry = jobs_.at(from.run_id);
  const std::chrono::nanoseconds now = context.now - entry.job.began_at();
  context.actions.sends.push_back(
      {id, proto::Alive{keep_alive.number, now, now, entry.job.session(from.agent)->acknowledged}});
}

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::Bye&, Context& context) {
  if (!from.agent.empty()) {
    const AgentId agent = from.agent;
    end_session(from.run_id, jobs_.at(from.run_id), agent, std::nullopt, context);
  }
  drop(id, context);
}

}  // namespace ddprun::rdzv
