// What happens to the jobs of the service, what a journal is to keep of them, and brings back.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proto/run_id.hpp"
#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

/// What has happened to a job: durable first, then known to the job, then told to its agents.
void ServiceCore::record(const std::string& run_id, Entry& entry, JobEvent event,
                         Context& context) {
  if (std::exchange(entry.forgotten, false)) record(run_id, entry, entry.job.summary(), context);
  const auto before = static_cast<std::int64_t>(entry.job.sessions().size());
  const bool was_idle = entry.job.is_idle();
  const bool had_workers = entry.job.may_have_workers();
  MembershipActions actions = entry.job.apply(event, context.now);
  sessions_ += static_cast<std::int64_t>(entry.job.sessions().size()) - before;
  busy_jobs_ +=
      static_cast<std::int64_t>(was_idle) - static_cast<std::int64_t>(entry.job.is_idle());
  jobs_with_workers_ += static_cast<std::int64_t>(entry.job.may_have_workers()) -
                        static_cast<std::int64_t>(had_workers);
  if (const auto* began = std::get_if<SessionBegan>(&event))
    longest_lease_ = std::max(longest_lease_, began->lease);
  context.actions.records.push_back({run_id, context.now, std::move(event)});
  ++entry.records;
  std::erase_if(actions.warnings,
                [&](const std::string& warning) { return is_told_here(entry, actions, warning); });
  for (Send& send : actions.sends) {
    const Job::Session* session = entry.job.session(send.to);
    if (session != nullptr && session->contact.connection)
      context.actions.sends.push_back({*session->contact.connection, std::move(send.message)});
  }
  if (!actions.log.empty())
    context.actions.log.push_back(fmt::format("job={} {}", run_id, actions.log));
  for (const std::string& warning : actions.warnings)
    context.actions.warnings.push_back(
        fmt::format("job {}: {}", proto::named_job(run_id), warning));
  follow(run_id, entry);
}

/// The agent in this process is sent the same line: its people are those at the service.
bool ServiceCore::is_told_here(const Entry& entry, const MembershipActions& actions,
                               const std::string& warning) const {
  return std::any_of(actions.sends.begin(), actions.sends.end(), [&](const Send& send) {
    const Job::Session* session = entry.job.session(send.to);
    if (session == nullptr || !session->contact.connection) return false;
    return connections_.at(*session->contact.connection).addr.empty() && carries(send, warning);
  });
}

/// Takes snapshots of the jobs that have new records; a snapshot comes after all of these.
void ServiceCore::take_snapshots(Context& context) {
  for (const JobRecord& record : context.actions.records) {
    const auto found = jobs_.find(record.run_id);
    if (found == jobs_.end() || !found->second.job.is_at_rest()) continue;
    auto& [run_id, entry] = *found;
    const SnapshotSettings& when = *settings_.snapshots;
    if (entry.records <= when.records + when.records_per_session * entry.job.sessions().size())
      continue;
    JobSnapshot& snapshot = context.actions.snapshots.emplace_back();
    snapshot.run_id = run_id;
    for (JobEvent& event : entry.job.snapshot())
      snapshot.records.push_back({run_id, context.now, std::move(event)});
    entry.records = 0;
  }
}

void ServiceCore::follow(const std::string& run_id, Entry& entry) {
  const auto deadline = entry.job.deadline();
  if (deadline == entry.deadline) return;
  if (entry.deadline) deadlines_.erase({*entry.deadline, run_id});
  if (deadline) deadlines_.insert({*deadline, run_id});
  entry.deadline = deadline;
}

/// A job makes room for a new one when it is over and all its agents know.
bool ServiceCore::make_room(ServiceActions& actions) {
  if (jobs_.size() < settings_.jobs_max) return true;
  erase_empty(actions);
  if (jobs_.size() < settings_.jobs_max) return true;
  const auto over = std::find_if(jobs_.begin(), jobs_.end(),
                                 [](const auto& job) { return job.second.job.is_idle(); });
  if (over == jobs_.end()) return false;
  actions.forget.push_back(over->first);
  jobs_.erase(over);
  return true;
}

void ServiceCore::erase_empty(ServiceActions& actions) {
  std::erase_if(jobs_, [&](const auto& job) {
    if (!job.second.job.is_empty()) return false;
    actions.forget.push_back(job.first);
    return true;
  });
}

/// The job itself stays here for agents that come late.
void ServiceCore::forget(const std::string& run_id, Entry& entry, ServiceActions& actions) {
  if (std::exchange(entry.forgotten, true)) return;
  actions.forget.push_back(run_id);
}

const Job* ServiceCore::job(const std::string& run_id) const {
  const auto entry = jobs_.find(run_id);
  return entry == jobs_.end() ? nullptr : &entry->second.job;
}

// ---- what a journal brings back ----

void ServiceCore::replay(const JobRecord& record) {
  Entry& entry = jobs_.try_emplace(record.run_id, record.at).first->second;
  static_cast<void>(entry.job.apply(record.event, record.at));
  entry.is_replayed = true;
  entry.records = std::holds_alternative<JobRestored>(record.event) ? 0 : entry.records + 1;
}

ServiceActions ServiceCore::begin(Clock::time_point now) {
  ServiceActions actions;
  Context context{now, actions};
  began_at_ = now;
  sessions_ = busy_jobs_ = jobs_with_workers_ = 0;
  for (auto& [run_id, entry] : jobs_) {
    if (!entry.job.is_idle()) ++busy_jobs_;
    if (entry.job.may_have_workers()) ++jobs_with_workers_;
    for (const auto& [id, session] : entry.job.sessions()) {
      entry.job.contact(id) = {{}, now, true};
      expect_word_of(session);
      longest_lease_ = std::max(longest_lease_, session.lease);
      ++sessions_;
    }
    wait_again_for_past(run_id, entry, context);
    follow(run_id, entry);
    const Job& job = entry.job;
    if (job.all_know() ||
        (job.is_over() && job.sessions().empty() && now - job.summary().ended_at > kLateComer))
      forget(run_id, entry, actions);
  }
  return actions;
}

}  // namespace ddprun::rdzv
