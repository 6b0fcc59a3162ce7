// How a round forms: which nodes take part, with which ranks, and what waiting nodes learn of it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proto/failure_text.hpp"
#include "rendezvous/membership/states.hpp"

namespace ddprun::rdzv {

using namespace std::chrono_literals;

namespace {

/// A round that forms sooner is not worth a line about missing nodes.
constexpr auto kNotifyAfter = 2s;
constexpr auto kNotifyEvery = 1s;

/// The nodes of the next round do not start without the chosen ones.
bool awaits_chosen(const Roster& roster) {
  if (roster.count(Phase::checking) == 0) return false;
  const auto& members = roster.members();
  return std::any_of(members.begin(), members.end(), [](const Roster::Entry& entry) {
    return entry.second.phase == Phase::checking && entry.second.is_chosen;
  });
}

/// For the people at the service, and for the user of the node that has this limit.
void warn_store_room(const Roster::Entry& server, int world_size, MembershipActions& actions) {
  const Node& node = server.second.node;
  if (node.store_clients_max == 0 || node.store_clients_max >= world_size) return;
  std::string line = fmt::format(
      "{} serves the workers' store and may open too few files for {} workers: raise its limit "
      "(ulimit -n)",
      node.name, world_size);
  actions.warnings.push_back(line);
  actions.send(server.first, proto::Remark{std::move(line)});
}

/// The worker with the newest state, which all others get: it has done the most steps, and among
/// equals it has the lowest rank.
struct Source {
  int rank = 0;
  std::uint64_t step = 0;
};

/// Workers that go on in another round, and the source of their state.
class Keeping {
 public:
  /// The local ranks of a node, which still has its seat of the round before, that have left that
  /// round. Nodes come in the order of their ranks. One that had no part in that round has older
  /// workers, if any.
  [[nodiscard]] std::vector<int> take(const Member& member, int first_rank,
                                      proto::RoundNumber number) {
    std::vector<int> local_ranks;
    if (!member.seat) return local_ranks;
    for (const proto::KeptWorker& worker : member.node.kept) {
      if (worker.round + 1 != number) continue;
      // A list in another order, or beyond the node's workers, is no list of ours.
      if (!local_ranks.empty() && worker.local_rank <= local_ranks.back()) continue;
      if (worker.local_rank >= member.node.local_world_size) continue;
      local_ranks.push_back(worker.local_rank);
      const int rank = first_rank + worker.local_rank;
      if (worker.step && (!source_ || *worker.step > source_->step)) source_ = {rank, *worker.step};
    }
    workers_ += static_cast<int>(local_ranks.size());
    return local_ranks;
  }
  /// None: no worker has a state that the others could get, so all of them are started.
  [[nodiscard]] const std::optional<Source>& source() const { return source_; }
  [[nodiscard]] int workers() const { return workers_; }

 private:
  std::optional<Source> source_;
  int workers_ = 0;
};

}  // namespace

void Forming::enter(JobFacts& job, Context& context) {
  job.resume_from_past();
  try_form(job, context);
}

// ---- joining and leaving ----

void Forming::on_join(JobFacts& job, const proto::Join& join, Context& context) {
  if (!job.admit(context.agent, join, context.actions)) return;
  job.resume_from_past();
  try_form(job, context);
}

void Forming::on_leave(JobFacts& job, const proto::Leave& left, Context& context) {
  Roster::Entry* const entry = job.roster.find(context.agent);
  if (entry == nullptr) {
    // It could not even join (its port is taken, for example). That ends the node, not the job.
    context.actions.send(context.agent, outcome_of(left));
    return;
  }
  const proto::Leave leave = job.leave_of(entry->second, left);
  if (leave.cancels) {
    context.next = Finished{job.cancelled_by(*entry, leave)};
    return;
  }
  job.roster.erase(*entry);
  if (job.roster.size() == 0) {
    context.goodbye = leave;
    context.next = Finished{outcome_of(leave)};
    return;
  }
  context.actions.send(context.agent, outcome_of(leave));
  try_form(job, context);
}

void Forming::on_checked(JobFacts& job, const proto::Checked& checked, Context& context) {
  const auto result = job.checks.take_answer(job.roster, context.agent, checked, context.actions);
  if (result.leaves) return on_leave(job, *result.leaves, context);
  try_form(job, context);
}

void Forming::on_lost(JobFacts& job, const AgentLost&, Context& context) {
  Roster& roster = job.roster;
  const Roster::Entry* entry = roster.find(context.agent);
  if (entry == nullptr) return;
  roster.erase(*entry);
  try_form(job, context);  // nodes that were lost may come back, also if all were
}

// ---- forming ----

void Forming::try_form(JobFacts& job, Context& context) {
  const proto::JobSettings& settings = job.settings;
  if (!notify_at && settings.max_nodes > 1)
    notify_at = std::max(context.now + kNotifyEvery, since + kNotifyAfter);
  const int waiting = job.roster.count(Phase::waiting);
  const bool enough = waiting >= settings.min_nodes;
  if (has_chosen && awaits_chosen(job.roster)) return;
  if (!enough) last_call_at.reset();
  has_chosen = has_chosen && enough;
  // Nodes of the last round keep their seats, and come back within moments.
  const bool all_back = job.roster.count(Phase::stopped) == 0;
  if (all_back && !enough) reforming = false;  // other nodes come one by one
  if (not_before) return;
  if (all_back && (waiting >= settings.max_nodes || (enough && reforming) || has_chosen)) {
    form(job, context);
  } else if (enough && !last_call_at) {
    last_call_at = std::max(context.now + settings.last_call, job.incomplete_not_before);
  }
}

bool Forming::will_form(const JobFacts& job) const {
  return last_call_at || job.roster.count(Phase::checking) > 0 ||
         (not_before && job.roster.count(Phase::waiting) >= job.settings.min_nodes);
}

std::optional<Clock::time_point> Forming::deadline(const JobFacts& job) const {
  auto last_call = last_call_at;
  if (last_call && not_before) last_call = std::max(*last_call, *not_before);
  std::optional<Clock::time_point> next;
  if (!will_form(job)) next = since + job.settings.join_timeout;
  for (const auto& other : {last_call, not_before, notify_at})
    if (other && (!next || *other < *next)) next = other;
  return next;
}

void Forming::on_deadline(JobFacts& job, const DeadlinePassed&, Context& context) {
  if (not_before && context.now >= *not_before) {
    not_before.reset();
    try_form(job, context);
    if (context.next) return;
  }
  if (!not_before && last_call_at && context.now >= *last_call_at) return form(job, context);
  if (will_form(job) || context.now < since + job.settings.join_timeout) {
    if (notify_at && context.now >= *notify_at) notify_waiting(job, context);
    return;
  }
  proto::Finished finished;
  finished.outcome = proto::Finished::Outcome::failed;
  finished.reason = fmt::format(
      "no round formed within the join timeout of {} s: {} of at least {} nodes joined",
      std::chrono::duration_cast<std::chrono::seconds>(job.settings.join_timeout).count(),
      job.roster.count(Phase::waiting), job.settings.min_nodes);
  if (!change.empty() || lost_node)
    finished.reason += "; " + (change.empty() ? describe(*lost_node) : change);
  if (const auto& unsound = job.checks.unsound(); !unsound.empty())
    finished.reason += fmt::format("; {} {}", unsound.back().node, unsound.back().reason);
  finished.lost_node = lost_node;
  context.next = Finished{std::move(finished)};
}

bool Forming::check_chosen(JobFacts& job, const std::vector<Roster::Entry*>& nodes,
                           Context& context) {
  bool any = false;
  for (Roster::Entry& entry : job.roster.members()) {
    Member& member = entry.second;
    if (member.is_checked || member.phase != Phase::waiting) continue;
    if (std::find(nodes.begin(), nodes.end(), &entry) == nodes.end()) continue;
    job.checks.ask(job.roster, entry, context.actions);
    member.is_chosen = true;
    any = true;
  }
  has_chosen = has_chosen || any;
  if (any) last_call_at.reset();
  return any;
}

void Forming::form(JobFacts& job, Context& context) {
  const std::vector<Roster::Entry*> nodes = job.roster.seated();
  if (check_chosen(job, nodes, context)) return;
  int world_size = 0;
  std::map<std::string, int> role_sizes;
  for (const Roster::Entry* entry : nodes) {
    world_size += entry->second.node.local_world_size;
    role_sizes[entry->second.node.role] += entry->second.node.local_world_size;
  }
  warn_store_room(*nodes.front(), world_size, context.actions);
  const Node& first = nodes.front()->second.node;
  job.round = {};
  job.round.epoch = job.epoch;
  job.round.number = job.next_round++;
  job.round.reason = job.reason;
  job.round.group_world_size = static_cast<int>(nodes.size());
  job.round.world_size = world_size;
  job.round.restart_count = job.policy.restart_count();
  job.round.max_restarts = job.settings.restart.max_restarts;
  job.round.master_addr = first.store_addr;
  job.round.master_port = first.store_port;
  job.round.last_culprit = culprit;
  std::map<std::string, int> role_ranks;
  const bool all_know = std::all_of(
      nodes.begin(), nodes.end(), [](const auto* entry) { return entry->second.node.knows_kept; });
  Keeping keeping;
  Seat seat;
  for (Roster::Entry* entry : nodes) {
    Member& member = entry->second;
    int& role_rank = role_ranks[member.node.role];
    seat.first_role_rank = role_rank;
    seat.role_world_size = role_sizes[member.node.role];
    seat.keep.clear();
    if (all_know) seat.keep = keeping.take(member, seat.first_rank, job.round.number);
    member.seat = seat;
    member.stepped_back = 0;
    job.roster.set_phase(member, Phase::active);
    seat.first_rank += member.node.local_world_size;
    role_rank += member.node.local_world_size;
    ++seat.group_rank;
  }
  if (const auto& source = keeping.source()) {
    job.round.kept_workers = keeping.workers();
    job.round.source_rank = source->rank;
    job.round.source_step = source->step;
  }
  for (Roster::Entry& entry : job.roster.members()) {
    Member& member = entry.second;
    member.node.kept.clear();
    if (!keeping.source() && member.seat) member.seat->keep.clear();
    if (member.phase == Phase::active) {
      context.actions.send(entry.first, job.round_for(*member.seat));
    } else {
      if (member.phase == Phase::waiting && job.roster.gives_way(member))
        step_back(job, entry, context);
      member.failed_rounds = 0;
      member.seat.reset();  // that was in an older round
      member.is_checked = !member.node.checks_first;
    }
  }
  job.formed_any = true;
  context.next = Running{};
}

void Forming::step_back(JobFacts& job, Roster::Entry& entry, Context& context) const {
  Member& member = entry.second;
  member.stepped_back = job.round.number;
  std::string why = fmt::format("gave its place to a spare: {} rounds in a row failed on this node",
                                member.failed_rounds);
  if (culprit) why += "; the last one: " + job.reason.substr(0, NodeChecks::kTextBytesMax);
  job.checks.note_unsound(member.node.name, why);
  std::string line = fmt::format("{} {}", job.roster.label(entry), why);
  context.actions.warnings.push_back(line);
  context.actions.send(entry.first, proto::Remark{std::move(line)});
  job.notify_spare(entry.first, job.round.group_world_size, "", context.actions);
}

// ---- what waiting nodes learn ----

Clock::time_point Forming::forms_at(const JobFacts& job) const {
  if (last_call_at) return *last_call_at;
  const int waiting = job.roster.count(Phase::waiting);
  if (!not_before || waiting < job.settings.min_nodes) return since + job.settings.join_timeout;
  const bool is_complete = waiting >= job.settings.max_nodes || reforming;
  return is_complete ? *not_before : *not_before + job.settings.last_call;
}

void Forming::notify_waiting(JobFacts& job, Context& context) {
  notify_at.reset();  // until a node joins or leaves
  proto::Waiting waiting;
  waiting.nodes = job.roster.count(Phase::waiting);
  waiting.min_nodes = job.settings.min_nodes;
  waiting.max_nodes = job.settings.max_nodes;
  waiting.joined = job.roster.names_of(Phase::waiting);
  waiting.checked = job.roster.names_of(Phase::checking);
  waiting.missing = job.roster.missing();
  waiting.reason = change;
  waiting.left = std::max(forms_at(job) - context.now, Clock::duration::zero());
  // Nodes are not notified before a restart's wait is over.
  const bool is_held = not_before && waiting.nodes >= job.settings.min_nodes;
  waiting.for_past_workers = is_held || last_call_at == job.incomplete_not_before;
  for (const proto::AgentId& agent : job.roster.notified()) context.actions.send(agent, waiting);
}

}  // namespace ddprun::rdzv
