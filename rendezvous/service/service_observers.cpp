// What people ask of the service: how its jobs are, and to give up a node of which they know that
// it is dead.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/endpoint.hpp"
#include "proto/fit_frame.hpp"
#include "proto/message_limits.hpp"
#include "rendezvous/service/service_core.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;
using proto::AgentId;
using proto::Refused;

namespace {

constexpr std::size_t kNamesMax = 8;  // in a line

/// What a page of a status has room for: an upper bound of its JSON.
class Page {
 public:
  /// False: the page is full.
  [[nodiscard]] bool add(const proto::JobStatus& job) {
    return jobs_++ < proto::kStatusJobsMax && take(kJobBytes, job.run_id.size());
  }
  [[nodiscard]] bool add(const proto::MemberStatus& member) {
    return members_++ < proto::kStatusMembersMax &&
           take(kMemberBytes, member.agent.size() + member.node_name.size());
  }

 private:
  static constexpr std::size_t kJobBytes = 512;     // without names
  static constexpr std::size_t kMemberBytes = 192;  // without names
  static constexpr std::size_t kEscaped = 6;        // a byte, as \u0001
  /// For what is around the list, and the place at which the next page begins.
  static constexpr std::size_t kRest = 512 + 2 * kEscaped * proto::kNameBytesMax;

  bool take(std::size_t bytes, std::size_t of_names) {
    bytes_ += bytes + kEscaped * of_names;
    return bytes_ <= proto::kMessageBytesMax - kRest;
  }

  std::size_t jobs_ = 0;
  std::size_t members_ = 0;
  std::size_t bytes_ = 0;
};

/// "node1, node2 and 3 more".
std::string listed(std::vector<std::string> names) {
  if (names.empty()) return "none";
  const std::size_t more = names.size() - std::min(names.size(), kNamesMax);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Whether a run id is the asked one, or among the many that this is the name of.
bool is_among(const std::string& run_id, const std::string& asked) {
  return names_many(asked) ? run_id.starts_with(common_begin(asked)) : run_id == asked;
}

/// The sessions that NODE of a fence may mean: one agent's id, or those of a name.
std::vector<AgentId> sessions_of(const Job& job, const std::string& node) {
  if (job.session(node) != nullptr) return {node};
  return job.agents_of(node);
}

std::string names_of(const Job& job) {
  std::vector<std::string> names;
  for (const auto& [id, session] : job.sessions())
    names.push_back(session.node_name.empty() ? id : session.node_name);
  std::sort(names.begin(), names.end(), natural_less);
  return listed(std::move(names));
}

}  // namespace

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::StatusRequest& request,
                       Context& context) {
  proto::Status status;
  auto listed = jobs_.lower_bound(std::string(
      names_many(from.run_id) ? common_begin(from.run_id) : std::string_view(from.run_id)));
  Page page;
  for (; listed != jobs_.end() && is_among(listed->first, from.run_id); ++listed) {
    const auto& [run_id, entry] = *listed;
    if (!is_visible(run_id, from.run_id)) continue;
    ++status.job_count;
    if (run_id < request.from.run_id || status.next) continue;
    proto::JobStatus job = status_of(run_id, entry, context.now);
    if (!page.add(job)) {
      status.next = proto::StatusPlace{run_id, {}};
      break;
    }
    proto::AgentId after = run_id == request.from.run_id ? request.from.agent : proto::AgentId();
    const auto& sessions = entry.job.sessions();
    for (auto one = sessions.upper_bound(after); one != sessions.end(); ++one) {
      proto::MemberStatus member = status_of(one->first, one->second, entry.job, context.now);
      if (!page.add(member)) {
        status.next = proto::StatusPlace{run_id, after};
        break;
      }
      after = one->first;
      job.members.push_back(std::move(member));
    }
    status.jobs.push_back(std::move(job));
  }
  context.actions.sends.push_back({id, std::move(status)});
}

proto::MemberStatus ServiceCore::status_of(const AgentId& agent, const Job::Session& session,
                                           const Job& job, Clock::time_point now) {
  const Membership* membership = job.membership();
  return {agent,
          session.node_name,
          membership != nullptr ? membership->group_rank(agent) : std::nullopt,
          session.contact.connection.has_value(),
          std::max<std::chrono::nanoseconds>(now - session.contact.heard_at, 0ns),
          session.contact.since_start};
}

/// Without its nodes.
proto::JobStatus ServiceCore::status_of(const std::string& run_id, const Entry& entry,
                                        Clock::time_point now) {
  proto::JobStatus status;
  status.run_id = run_id;
  status.epoch = entry.job.epoch();
  status.age = entry.job.age(now);
  const Membership* membership = entry.job.membership();
  if (membership != nullptr) {
    status.phase = to_string(membership->state());
    if (membership->has_formed()) status.round = membership->next_round() - 1;
    status.min_nodes = membership->settings().min_nodes;
    status.max_nodes = membership->settings().max_nodes;
    status.restart_count = membership->restart_count();
    status.max_restarts = membership->settings().restart.max_restarts;
  } else if (entry.job.is_over()) {
    status.phase = to_string(JobState::finished);
  }
  status.nodes = static_cast<int>(entry.job.sessions().size());
  return status;
}

void ServiceCore::hear(ConnectionId id, Connection& from, const proto::Fence& fence,
                       Context& context) {
  if (from.run_id.empty() || !from.agent.empty())
    return refuse(id, Refused::Why::broken, "fence is not allowed here", context);
  if (!settings_.has_secret && !from.addr.empty() && !is_loopback(from.addr))
    return refuse(
        id, Refused::Why::no_fence,
        "this rendezvous has no secret, so it gives up a node only at a request over loopback: run "
        "rdzvd --fence on its machine with --endpoint=127.0.0.1:PORT, or start it with a secret",
        context);
  const auto found = jobs_.find(from.run_id);
  const std::string reason =
      found == jobs_.end() ? no_job(from.run_id)
                           : why_not_fenced(from.run_id, found->second, fence.node, context.now);
  if (!reason.empty()) return refuse(id, Refused::Why::no_fence, reason, context);
  const AgentId agent = sessions_of(found->second.job, fence.node).front();
  context.actions.warnings.push_back(
      fmt::format("job '{}': the node '{}' (agent {}) was given up at the request of {}",
                  from.run_id, fence.node, agent, from.addr));
  end_session(from.run_id, found->second, agent, proto::LossSign::fenced, context);
  hear(id, from, proto::StatusRequest{}, context);
}

std::string ServiceCore::no_job(const std::string& run_id) const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : jobs_)
    if (is_visible(name, run_id)) names.push_back(name);
  return fmt::format("there is no job '{}'; the jobs here: {}", run_id, listed(std::move(names)));
}

/// Empty: NODE is one node of the job, and nothing shows that it lives.
std::string ServiceCore::why_not_fenced(const std::string& run_id, const Entry& entry,
                                        const std::string& node, Clock::time_point now) {
  const std::vector<AgentId> agents = sessions_of(entry.job, node);
  if (agents.empty())
    return fmt::format("no node of the job '{}' is named '{}'; its nodes: {}", run_id, node,
                       names_of(entry.job));
  if (agents.size() > 1)
    return fmt::format("{} nodes of the job '{}' are named '{}'; use the id of an agent: {}",
                       agents.size(), run_id, node, listed(agents));
  const Job::Session& session = *entry.job.session(agents.front());
  const auto silence_shown = kSilentPeriods * session.lease / kKeepAlivesPerLease;
  const auto silent_for = now - session.contact.heard_at;
  if (silent_for >= silence_shown) return "";
  using Seconds = std::chrono::duration<double>;
  return fmt::format(
      "the node '{}' may be alive: its agent was heard {:.1f} s ago. Stop that agent, or cut the "
      "node off and ask again when nothing was heard for {:.1f} s",
      node, Seconds(silent_for).count(), Seconds(silence_shown).count());
}

}  // namespace ddprun::rdzv
