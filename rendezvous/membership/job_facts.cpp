#include "rendezvous/membership/job_facts.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/assert.hpp"
#include "proto/message_limits.hpp"

namespace ddprun::rdzv {

using proto::AgentId;
using std::chrono::nanoseconds;

namespace {

std::string text(int value) { return std::to_string(value); }
std::string text(nanoseconds value) {
  return fmt::format("{}", std::chrono::duration<double>(value).count());
}
std::string text(const std::vector<int>& codes) { return fmt::format("{}", fmt::join(codes, ",")); }

/// As an option: what stands for "none" can't be typed.
template <class Value>
std::optional<Value> given_or_none(const Value& value) {
  return value == Value() ? std::nullopt : std::optional(value);
}

/// `option` with its value, or why there is none.
struct Setting {
  std::string words;

  template <class Value>
  Setting(std::string_view option, const Value& value)
      : words(fmt::format("{}{}", option, text(value))) {}
  template <class Value>
  Setting(std::string_view option, const std::optional<Value>& value, std::string_view none)
      : words(value ? fmt::format("{}{}", option, text(*value)) : std::string(none)) {}
};

std::string range_of(const proto::JobSettings& settings) {
  return settings.min_nodes == settings.max_nodes
             ? fmt::format("{}", settings.max_nodes)
             : fmt::format("{}:{}", settings.min_nodes, settings.max_nodes);
}

/// The agent of a session: one that was cut off comes back as "ID/2", "ID/3" and so on.
std::string process_of(const AgentId& session) { return session.substr(0, session.rfind('/')); }

/// Why the node can never take part; empty: it can.
std::string refusal(const JobFacts& job, const AgentId& agent, const proto::Join& join) {
  if (join.settings.min_nodes != job.settings.min_nodes ||
      join.settings.max_nodes != job.settings.max_nodes) {
    return fmt::format("this job has --nnodes={}, {} was started with --nnodes={}",
                       range_of(job.settings), join.node_name, range_of(join.settings));
  }
  const bool may_serve_store = !join.insists_on_rank || join.requested_group_rank.value_or(0) == 0;
  if (may_serve_store && (join.store_addr.empty() || join.store_port == 0))
    return fmt::format(
        "{} may have to serve the workers' store, and names no address and port for it",
        join.node_name);
  if (!join.insists_on_rank || !join.requested_group_rank) return "";
  const int rank = *join.requested_group_rank;
  if (rank < 0 || rank >= job.settings.max_nodes)
    return fmt::format("--node-rank={} of {}: this job has the node ranks 0 to {}", rank,
                       join.node_name, job.settings.max_nodes - 1);
  const Roster::Entry* holder = job.roster.holder(rank);
  if (holder == nullptr || holder->first == agent) return "";
  const Member& other = holder->second;
  const bool is_there = other.phase == Phase::waiting || other.phase == Phase::checking;
  if (!is_there) return "";  // it may be this very node's, which starts again
  const bool alike = other.node.name == join.node_name;
  return fmt::format("--node-rank={} is given twice, on {} and on {}", rank,
                     alike ? holder->first : other.node.name, alike ? agent : join.node_name);
}

/// Waiting nodes are notified, too, though only once of a node that is started again and again.
void refuse(JobFacts& job, const AgentId& agent, const proto::Join& join, std::string why,
            MembershipActions& actions) {
  const std::string remark = fmt::format("{} was refused: {}", join.node_name, why);
  if (std::exchange(job.last_refusal, remark) != remark)
    for (const AgentId& waiting : job.roster.notified())
      actions.send(waiting, proto::Remark{remark});
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = std::move(why);
  actions.send(agent, std::move(finished));
}

void warn_differences(const JobFacts& job, const AgentId& agent, const proto::Join& join,
                      MembershipActions& actions) {
  std::vector<std::string> ignored = differences(job.settings, join.settings);
  if (join.requested_group_rank && *join.requested_group_rank >= job.settings.max_nodes)
    ignored.push_back(fmt::format("--node-rank={} is ignored: this job has the node ranks 0 to {}",
                                  *join.requested_group_rank, job.settings.max_nodes - 1));
  for (std::string& one : ignored) {
    actions.warnings.push_back(fmt::format("{}: {}", join.node_name, one));
    actions.send(agent, proto::Remark{std::move(one)});
  }
}

/// Where ranks are only wishes, a rank that is wished for twice is no reason to refuse a node.
void warn_same_rank(const JobFacts& job, const Roster::Entry& entry, MembershipActions& actions) {
  const Node& node = entry.second.node;
  const Roster::Entry* other = job.roster.with_same_rank(entry);
  if (node.insists_on_rank || other == nullptr ||
      *node.requested_group_rank >= job.settings.max_nodes)
    return;
  const std::string line =
      fmt::format("--node-rank={} is given on {} and on {}: one of them gets it",
                  *node.requested_group_rank, job.roster.label(*other), job.roster.label(entry));
  actions.warnings.push_back(line);
  for (const AgentId& agent : {other->first, entry.first}) actions.send(agent, proto::Remark{line});
}

/// A node reports its last round to a service that has lost its memory. The round that is out keeps
/// its number.
void learn_past(JobFacts& job, const proto::PastRound& was_in) {
  const bool ours = was_in.epoch < job.epoch ||
                    (was_in.epoch == job.epoch && job.formed_any && was_in.number < job.next_round);
  if (!ours || job.past) job.add_past(was_in);
}

}  // namespace

std::vector<std::string> differences(const proto::JobSettings& job,
                                     const proto::JobSettings& given) {
  const auto settings = [](const proto::JobSettings& of) {
    const proto::RestartSettings& restart = of.restart;
    return std::vector<Setting>{
        {"--max-restarts=", restart.max_restarts},
        {"--restart-window=", given_or_none(restart.window), "no --restart-window"},
        {"--restart-delay=", restart.back_off},
        {"--min-uptime=", restart.minimum_uptime},
        {"--no-restart-on=", given_or_none(restart.no_restart_codes), "no --no-restart-on"},
        {"--max-node-changes=", of.max_node_changes, "no --max-node-changes"},
        {"--rdzv-conf=last_call_timeout=", of.last_call},
        {"--rdzv-conf=join_timeout=", of.join_timeout},
        {"--grow-delay=", of.grow_delay, "--grow-delay=never"},
    };
  };
  std::vector<std::string> lines;
  const auto here = settings(given);
  for (std::size_t i = 0; const Setting& there : settings(job)) {
    const Setting& other = here[i++];
    if (there.words != other.words)
      lines.push_back(fmt::format("this job has {}, not {}", there.words, other.words));
  }
  return lines;
}

// ---- beginning, and going on from a snapshot ----

JobFacts::JobFacts(proto::JobSettings of_job, proto::Epoch first_epoch, Clock::time_point began_at)
    : settings(std::move(of_job)),
      epoch(first_epoch),
      began(began_at),
      roster(settings),
      policy(settings.restart) {
  DDPRUN_ASSERT(1 <= settings.min_nodes && settings.min_nodes <= settings.max_nodes,
                "1 <= min_nodes <= max_nodes");
}

JobFacts::JobFacts(const MembershipSnapshot& snapshot, Clock::time_point began_at)
    : JobFacts(snapshot.settings, snapshot.round.epoch, began_at) {
  checks = NodeChecks(snapshot.checks, snapshot.unsound);
  policy = RestartPolicy(settings.restart, snapshot.restarts);
  has_leftovers = snapshot.has_leftovers;
  joins = snapshot.joins;
  node_changes = snapshot.node_changes;
  round = snapshot.round;
  next_round = round.number + 1;
  formed_any = true;
  past = snapshot.past;
  incomplete_not_before = snapshot.incomplete_not_before;
  reason = round.reason;
  last_refusal = snapshot.last_refusal;
}

MembershipSnapshot JobFacts::snapshot() const {
  return {.settings = settings,
          .round = round,
          .restarts = policy.history(),
          .node_changes = node_changes,
          .joins = joins,
          .past = past,
          .incomplete_not_before = incomplete_not_before,
          .last_refusal = last_refusal,
          .has_leftovers = has_leftovers,
          .checks = checks.asked(),
          .unsound = checks.unsound()};
}

bool JobFacts::admit(const AgentId& agent, const proto::Join& join, MembershipActions& actions) {
  if (std::string why = refusal(*this, agent, join); !why.empty()) {
    refuse(*this, agent, join, std::move(why), actions);
    return false;
  }
  const bool is_new = roster.find(agent) == nullptr;
  if (is_new) warn_differences(*this, agent, join, actions);
  Roster::Entry& entry = roster.join(agent, join, joins++);
  if (is_new) warn_same_rank(*this, entry, actions);
  if (join.was_in) learn_past(*this, *join.was_in);
  if (!entry.second.is_checked) checks.ask(roster, entry, actions);
  return true;
}

// ---- a past under a service that has lost its memory ----

std::optional<proto::PastRound> JobFacts::known_past() const {
  if (!formed_any) return past;
  return proto::PastRound{epoch, next_round - 1, policy.restart_count()};
}

void JobFacts::add_past(const proto::PastRound& more) {
  if (!past) past.emplace();
  past->epoch = std::max(past->epoch, more.epoch);
  past->number = std::max(past->number, more.number);
  past->restart_count = std::max(past->restart_count, more.restart_count);
}

void JobFacts::resume_from_past() {
  if (!past) return;
  if (past->epoch >= epoch && !formed_any)
    reason = "the rendezvous was started without its memory of the job";
  epoch = std::max(epoch, past->epoch + 1);
  next_round = std::max(next_round, past->number + 1);
  policy.resume_at(past->restart_count);
}

// ---- rounds ----

Roster::Entry* JobFacts::participant(const AgentId& agent, proto::RoundNumber number) {
  Roster::Entry* const entry = roster.find(agent);
  const bool takes_part = entry != nullptr && entry->second.in_round() && number + 1 == next_round;
  return takes_part ? entry : nullptr;
}

proto::Round JobFacts::round_for(const Seat& seat) const {
  proto::Round own = round;
  own.group_rank = seat.group_rank;
  own.first_rank = seat.first_rank;
  own.first_role_rank = seat.first_role_rank;
  own.role_world_size = seat.role_world_size;
  own.keep = seat.keep;
  return own;
}

proto::Leave JobFacts::leave_of(const Member& member, proto::Leave leave) const {
  const bool is_spare = formed_any && !member.seat;
  leave.cancels = leave.hosts || (leave.cancels && !is_spare);
  return leave;
}

proto::Finished JobFacts::cancelled_by(const Roster::Entry& entry,
                                       const proto::Leave& leave) const {
  proto::Finished finished = outcome_of(leave);
  if (settings.max_nodes > 1 && leave.signal != 0) finished.reason += " on " + roster.label(entry);
  return finished;
}

void JobFacts::notify_spare(const AgentId& agent, int nodes, std::string why,
                            MembershipActions& actions) const {
  proto::Waiting waiting;
  waiting.nodes = nodes;
  waiting.min_nodes = settings.min_nodes;
  waiting.max_nodes = settings.max_nodes;
  waiting.is_spare = true;
  waiting.reason = std::move(why);
  actions.send(agent, std::move(waiting));
}

void JobFacts::note_losses(const Roster::Entry& entry, const proto::Losses& more) {
  if (more.dropped_bytes == 0 && more.leftovers.empty()) return;
  has_leftovers = has_leftovers || !more.leftovers.empty();
  proto::Losses& noted = losses[process_of(entry.first)] = more;
  for (std::string& process : noted.leftovers)
    process = fmt::format("{}: {}", entry.second.node.name, process);
}

proto::Losses JobFacts::losses_beside(const AgentId& agent) const {
  proto::Losses sum;
  for (const auto& [process, lost] : losses) {
    if (process == process_of(agent)) continue;
    sum.dropped_bytes += lost.dropped_bytes;
    for (const std::string& leftover : lost.leftovers)
      if (sum.leftovers.size() < proto::kLeftoversMax) sum.leftovers.push_back(leftover);
  }
  return sum;
}

}  // namespace ddprun::rdzv
