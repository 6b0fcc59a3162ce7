// How long an agent may be silent, and what follows when a session ends.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proto/message_limits.hpp"
#include "proto/run_id.hpp"

#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;
using proto::AgentId;

std::chrono::nanoseconds ServiceCore::silence_allowed(std::chrono::nanoseconds lease) {
  const double drift = static_cast<double>(lease.count()) * kClockDrift;
  return lease + std::chrono::nanoseconds(static_cast<std::int64_t>(drift)) + kKillMargin;
}

std::chrono::nanoseconds ServiceCore::lease_for(const proto::Resume& resume) const {
  const std::chrono::nanoseconds for_load =
      kKeepAlivesPerLease * (1s * sessions_ / kKeepAlivesPerSecondMax);
  const auto wished = resume.lease > 0ns ? resume.lease : settings_.lease;
  return std::max(std::clamp(wished, proto::kLeaseMin, proto::kLeaseMax), for_load);
}

/// A job of which nothing is known may have a past under another service.
void ServiceCore::begin_job(const std::string& run_id, Entry& entry, std::chrono::nanoseconds lease,
                            Context& context) {
  if (settings_.remembers) return;
  record(run_id, entry, JobBegan{began_at_ + silence_allowed(lease)}, context);
  if (!settings_.past_lease) return;
  const Clock::time_point until = began_at_ + silence_allowed(*settings_.past_lease);
  if (context.now >= until) return;
  record(run_id, entry, PastHeard{until}, context);
  context.actions.warnings.push_back(fmt::format(
      "job {}: the rendezvous before this one was killed while workers ran; they may still run, "
      "so no workers are started for {} s",
      proto::named_job(run_id),
      std::chrono::ceil<std::chrono::seconds>(until - context.now).count()));
}

/// Begins the wait of a job again that was brought back while it waited for the leases of a past.
/// Nodes that had not come until this service was killed could not reach it since, and that alone
/// renews their leases.
void ServiceCore::wait_again_for_past(const std::string& run_id, Entry& entry, Context& context) {
  if (!entry.job.may_have_past()) return;
  std::chrono::nanoseconds lease = settings_.lease;
  for (const auto& [id, session] : entry.job.sessions()) lease = std::max(lease, session.lease);
  const Clock::time_point until = context.now + silence_allowed(lease);
  record(run_id, entry, JobBegan{until}, context);
  if (entry.job.has_heard_of_past()) record(run_id, entry, PastHeard{until}, context);
}

std::optional<std::chrono::nanoseconds> ServiceCore::lease_of_workers(Clock::time_point now) const {
  std::optional<std::chrono::nanoseconds> lease;
  if (jobs_with_workers_ > 0) lease = longest_lease_;
  if (settings_.past_lease && now < began_at_ + silence_allowed(*settings_.past_lease))
    lease = std::max(lease.value_or(0ns), *settings_.past_lease);
  return lease;
}

/// No round forms while the agents of another memory may still have workers.
void ServiceCore::hear_of_past(const std::string& run_id, Entry& entry, proto::Epoch epoch,
                               std::chrono::nanoseconds lease, Context& context) {
  const Membership* membership = entry.job.membership();
  if (membership != nullptr && (membership->has_formed() || epoch < membership->epoch())) return;
  const Clock::time_point until = began_at_ + silence_allowed(lease);
  if (context.now >= until) return;
  record(run_id, entry, PastHeard{until}, context);
}

/// Whether the agent was told what the journal, from which the job was brought back, does not know.
bool ServiceCore::is_outdated(const Entry& entry, const proto::Resume& resume) {
  if (!entry.is_replayed || !resume.epoch) return false;
  const Job::Session* session = entry.job.session(resume.agent);
  if (session != nullptr && session->acknowledged < resume.acknowledged) return true;
  const Membership* membership = entry.job.membership();
  if (membership == nullptr || *resume.epoch < membership->epoch()) return false;
  return *resume.epoch > membership->epoch() ||
         (resume.round && *resume.round >= membership->next_round());
}

/// All agents join again. One that was taken for known meanwhile has a new lease.
void ServiceCore::lose_memory(const std::string& run_id, Entry& entry,
                              std::chrono::nanoseconds lease, Context& context) {
  context.actions.warnings.push_back(fmt::format(
      "job {}: its journal is older than what its agents were told, as if an old copy was put "
      "back; they join again, and the job restarts once",
      proto::named_job(run_id)));
  std::vector<ConnectionId> open;
  for (const auto& [id, session] : entry.job.sessions()) {
    lease = std::max(lease, session.lease);
    if (session.contact.connection) open.push_back(*session.contact.connection);
  }
  for (const ConnectionId id : open) drop(id, context);
  entry.is_replayed = false;
  record(run_id, entry, MemoryLost{context.now + silence_allowed(lease)}, context);
}

/// A host that was started again has no worker of the time before, although the lease of the agent
/// that it had is not over. Only where its old connection is gone: names are not unique. `addr`:
/// the host's own; empty: not known.
void ServiceCore::drop_before_reboot(const std::string& run_id, Entry& entry,
                                     const proto::Join& join, const std::string& addr,
                                     Context& context) {
  if (join.boot_id.empty() || addr.empty()) return;
  for (const AgentId& id : entry.job.agents_of(join.node_name)) {
    const Job::Session& session = *entry.job.session(id);
    if (session.addr == addr && !session.boot_id.empty() && session.boot_id != join.boot_id &&
        !session.contact.connection)
      end_session(run_id, entry, id, proto::LossSign::rebooted, context);
  }
}

// ---- sessions that end ----

void ServiceCore::end_session(const std::string& run_id, Entry& entry, const AgentId& agent,
                              std::optional<proto::LossSign> lost, Context& context) {
  const Job::Contact contact = entry.job.contact(agent);
  if (const auto connection = contact.connection) {
    connections_.at(*connection).agent.clear();
    if (lost) drop(*connection, context);
  }
  const auto silent_for = std::max<std::chrono::nanoseconds>(context.now - contact.heard_at, 0ns);
  record(run_id, entry,
         lost
             ? JobEvent(SessionLost{agent, *lost, silent_for, contact.since_start, settings_.clock})
             : JobEvent(SessionOver{agent}),
         context);
  if (entry.job.all_know()) forget(run_id, entry, context.actions);
}

/// Its last words may still be on their way, and its connection end after this.
void ServiceCore::take(const NodeGone& gone, Context& context) {
  const auto found = jobs_.find(gone.run_id);
  if (found == jobs_.end()) return;
  for (const AgentId& agent : found->second.job.agents_of(gone.node))
    ended_.push_back({context.now + kEndMargin, gone.run_id, agent});
}

void ServiceCore::evict_ended(Context& context) {
  while (!ended_.empty() && ended_.front().evict_at <= context.now) {
    const EndedSession ended = std::move(ended_.front());
    ended_.pop_front();
    const auto entry = jobs_.find(ended.run_id);
    if (entry == jobs_.end()) continue;
    const Job::Session* session = entry->second.job.session(ended.agent);
    // It may have come back by another connection: then that was not its end.
    if (session == nullptr || session->contact.connection ||
        session->contact.heard_at > ended.evict_at - kEndMargin)
      continue;
    end_session(ended.run_id, entry->second, ended.agent, proto::LossSign::ended, context);
  }
}

/// The check is due no later than this session's lease is over. Each word of an agent moves its own
/// end, and the check only when it comes.
void ServiceCore::expect_word_of(const Job::Session& session) {
  const Clock::time_point end = session.contact.heard_at + silence_allowed(session.lease);
  check_at_ = std::min(check_at_.value_or(end), end);
}

void ServiceCore::evict_silent(Context& context) {
  if (!check_at_ || *check_at_ > context.now) return;
  check_at_.reset();
  for (auto& [run_id, entry] : jobs_) {
    std::vector<AgentId> silent;
    for (const auto& [id, session] : entry.job.sessions()) {
      if (session.contact.heard_at + silence_allowed(session.lease) <= context.now) {
        silent.push_back(id);
      } else {
        expect_word_of(session);
      }
    }
    for (const AgentId& id : silent)
      end_session(run_id, entry, id, proto::LossSign::silent, context);
  }
}

void ServiceCore::take(const DeadlinePassed&, Context& context) {
  evict_ended(context);
  evict_silent(context);
  std::vector<std::string> due;
  for (const auto& [at, run_id] : deadlines_) {
    if (at > context.now) break;
    due.push_back(run_id);
  }
  for (const std::string& run_id : due) record(run_id, jobs_.at(run_id), DeadlinePassed{}, context);
  erase_empty(context.actions);
}

}  // namespace ddprun::rdzv
