// What must hold of a simulated job: its rounds, its budget, its outcome.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "rendezvous/membership/verdict.hpp"
#include "tests/sim/sim_job.hpp"

namespace ddprun::sim {

using namespace std::chrono_literals;
using proto::Finished;

namespace {

/// Whether two agents were told the same end of the job. One of them has more details.
bool is_same(const Finished& a, const Finished& b) {
  const auto exit_code = [](const Finished& finished) {
    if (finished.exit_code) return *finished.exit_code;
    return finished.verdict ? rdzv::exit_code_of(*finished.verdict) : 0;
  };
  const auto culprit = [](const Finished& finished) {
    return finished.verdict ? fmt::format("{} of {}", finished.verdict->culprit.rank,
                                          finished.verdict->culprit.agent)
                            : std::string();
  };
  return a.outcome == b.outcome && a.reason == b.reason && a.no_restart == b.no_restart &&
         a.signal == b.signal && a.restart_count == b.restart_count &&
         exit_code(a) == exit_code(b) && culprit(a) == culprit(b);
}

}  // namespace

/// After each event of the service.
void SimJob::see_service() {
  see_records();
  require(rendezvous_.broken().empty(), rendezvous_.broken());
  const rdzv::Membership* membership = rendezvous_.membership();
  if (membership == nullptr) return;
  const bool is_cancelled =
      membership->outcome() && membership->outcome()->outcome == Finished::Outcome::cancelled;
  if (state_ == rdzv::JobState::stopping && membership->state() != state_ && !is_cancelled &&
      !history_.outcome)
    check_times();
  state_ = membership->state();
  // A node that was started just when the job ended runs it again, from the beginning.
  const bool was_over = history_.outcome.has_value();
  if (!was_over && membership->has_formed()) see_formed(*membership);
  if (membership->outcome()) see_outcomes(*membership);
  if (!was_over) see_budget(*membership);
  watch();
}

void SimJob::see_records() {
  for (const rdzv::JobRecord& record : rendezvous_.take_records()) {
    if (const auto* said = std::get_if<rdzv::Said>(&record.event)) {
      see_cell(static_cast<rdzv::EventKind>(said->message.index()));
      see_said(*said, record.at);
    } else if (std::holds_alternative<rdzv::SessionLost>(record.event)) {
      if (rendezvous_.membership() != nullptr) see_cell(rdzv::EventKind::lost);
    } else if (std::holds_alternative<rdzv::DeadlinePassed>(record.event)) {
      see_cell(rdzv::EventKind::deadline);
    }
  }
}

void SimJob::see_cell(rdzv::EventKind kind) {
  history_.cells.emplace(static_cast<int>(state_), static_cast<int>(kind));
}

void SimJob::see_said(const rdzv::Said& said, Clock::time_point at) {
  const auto* failed = std::get_if<proto::WorkerFailed>(&said.message);
  const auto* stopped = std::get_if<proto::Stopped>(&said.message);
  const auto* done = std::get_if<proto::WorkersDone>(&said.message);
  if (failed != nullptr && state_ == rdzv::JobState::running) failed_at_ = at;
  if (std::holds_alternative<proto::Join>(said.message)) joined_.insert(said.agent);
  if (std::holds_alternative<proto::Checked>(said.message))
    agent_of(said.agent).is_sound_told = true;
  // After an outcome it may be of a run that follows.
  const bool counts = !rounds_.empty() && !history_.outcome;
  RoundSeen* const newest = counts ? &rounds_.rbegin()->second : nullptr;
  const auto is_of_newest = [&](const auto* message) {
    return newest != nullptr && message != nullptr &&
           message->round == rounds_.rbegin()->first.second;
  };
  // What is said again, to a service with another clock, may come after the node has joined again.
  const bool is_again = is_of_newest(stopped) && !newest->stopped.insert(said.agent).second;
  if (stopped != nullptr && !is_again) joined_.erase(said.agent);
  if (is_of_newest(done)) ++newest->done;
  if (state_ != rdzv::JobState::running && state_ != rdzv::JobState::stopping) return;
  const proto::AgentId& own = agent_of(said.agent).id;
  // As the core does: the first failure stops the round, and where none does no time is needed.
  if (is_of_newest(failed) && state_ == rdzv::JobState::running &&
      !std::exchange(newest->has_failed, true))
    newest->tell(own, failed->round_began);
  if (is_of_newest(stopped) && newest->has_failed &&
      (!stopped->failures.empty() || newest->has_told(own)))
    newest->tell(own, stopped->round_began);
}

void SimJob::see_budget(const rdzv::Membership& membership) {
  const proto::RestartSettings& settings = plan_.job.restart;
  const int count = membership.restart_count();
  for (int i = last_restart_count_; i < count; ++i) restarts_at_.push_back(failed_at_);
  const auto counted = [&](Clock::time_point failed_at) {
    return failed_at > failed_at_ - settings.window;
  };
  const auto used = settings.window == 0ns
                        ? count
                        : std::count_if(restarts_at_.begin(), restarts_at_.end(), counted);
  // One that has forgotten when they were counts those of a window anew.
  require(used <= settings.max_restarts || (faults_.service_forgets && settings.window > 0ns),
          "the budget holds");
  if (!membership.has_formed()) return;
  // What one that has forgotten must know is checked when its rounds form.
  require(faults_.service_forgets || count >= last_restart_count_, "the restart count never falls");
  last_restart_count_ = count;
}

// ---- rounds ----

/// What the service has been told of rounds. One that loses its memory can count on from what the
/// nodes tell that have joined since: others may be cut off, on their way back, or gone.
SimJob::Past SimJob::known_to_service() const {
  Past known;
  if (!faults_.service_forgets) {
    if (!rounds_.empty()) known.newest = rounds_.rbegin()->first;
    known.number = newest_started_;
    known.restart_count = last_restart_count_;
    return known;
  }
  for (const auto& [id, session] : rendezvous_.job()->sessions()) {
    if (session.node_name.empty() || !session.contact.connection) continue;
    const Past& past = agents_.at(id.substr(0, id.find('/'))).past;
    known.newest = std::max(known.newest, past.newest);
    known.number = std::max(known.number, past.number);
    known.restart_count = std::max(known.restart_count, past.restart_count);
  }
  return known;
}

/// All messages of a round leave the core at one time: each rank is given once, all agree.
void SimJob::see_formed(const rdzv::Membership& membership) {
  const RoundId id{membership.epoch(), membership.next_round() - 1};
  if (rounds_.contains(id) || membership.state() != rdzv::JobState::running) return;
  const Past known = known_to_service();
  require(!known.newest || *known.newest < id, "rounds rise");
  require(!known.number || *known.number < id.second, "round numbers rise through the epochs");
  require(membership.restart_count() >= known.restart_count,
          "the restart count never falls through the epochs");
  for (const auto& [session, unused] : rendezvous_.job()->sessions()) {
    const auto current = membership.current(session);
    const auto* round = current ? std::get_if<proto::Round>(&*current) : nullptr;
    if (round != nullptr) see_round(id, *round, session);
  }
  check_newest_round();
  check_soundness(id);
  check_failing_node(rounds_[id], membership);
  if (harm_ && faults_.network_cut && faults_.workers_fail && world_.one_in(8)) miss_round();
}

void SimJob::see_round(const RoundId& id, const proto::Round& round,
                       const proto::AgentId& session) {
  RoundSeen& seen = rounds_[id];
  seen.formed_at = world_.now();
  require(round.epoch == id.first && round.number == id.second, "a round's nodes have its number");
  if (round.last_culprit && after_failure_.insert(id).second && rounds_.begin()->first != id)
    check_culprit(std::prev(rounds_.find(id))->second, *round.last_culprit);
  require(faults_.service_forgets || plan_.job.restart.window > 0ns ||
              static_cast<int>(after_failure_.size()) <= plan_.job.restart.max_restarts,
          "no more rounds after failures than the budget allows");
  if (round.last_culprit) seen.failed_before = round.last_culprit->agent;
  seen.world_size = round.world_size;
  seen.nodes = round.group_world_size;
  seen.reason = round.reason;
  seen.sizes.insert({round.world_size, round.group_world_size});
  seen.stores.insert(round.master_addr);
  seen.first_ranks[round.first_rank] += agent_of(session).node->workers();
  seen.group_ranks[session] = round.group_rank;
  see_kept(seen, round, agent_of(session));
}

/// Workers that go on were in the last round, and none has a newer state than the source's.
void SimJob::see_kept(RoundSeen& seen, const proto::Round& round, const Agent& agent) {
  seen.kept.emplace(round.kept_workers, round.source_rank, round.source_step);
  seen.kept_workers += static_cast<int>(round.keep.size());
  const agent::NodeRound* last = agent.node->machine().round();
  for (const int local_rank : round.keep) {
    require(last != nullptr && last->round.number + 1 == round.number,
            agent.id + " keeps workers of the last round only");
    const auto step = agent.node->state_of(local_rank);
    require(!step || *step <= round.source_step,
            fmt::format("{} has a newer state than the source", agent.id));
    const bool is_source = round.first_rank + local_rank == round.source_rank;
    seen.is_source_kept = seen.is_source_kept || is_source;
    require(!is_source || !step || *step == round.source_step,
            fmt::format("{} has the source's state", agent.id));
  }
}

void SimJob::check_kept() {
  const RoundSeen& seen = rounds_.rbegin()->second;
  require(seen.kept.size() == 1, "the nodes of a round agree on the source");
  const auto [workers, rank, step] = *seen.kept.begin();
  require(workers == seen.kept_workers, "as many workers go on as all nodes were told");
  if (workers == 0) return;
  happened("workers went on");
  require(seen.is_source_kept, "the source goes on");
  const RoundId& id = rounds_.rbegin()->first;
  const auto last = rounds_.find({id.first, id.second - 1});  // none: it was another service's
  if (last == rounds_.end() || last->second.kept.empty()) return;
  require(step >= std::get<2>(*last->second.kept.begin()), "no step is lost where workers go on");
}

void SimJob::check_newest_round() {
  if (rounds_.empty()) return;
  const RoundSeen& seen = rounds_.rbegin()->second;
  require(seen.sizes.size() == 1 && seen.stores.size() == 1, "the nodes of a round agree");
  require(seen.nodes >= plan_.job.min_nodes && seen.nodes <= plan_.job.max_nodes,
          "a round has as many nodes as --nnodes allows");
  require(static_cast<int>(seen.first_ranks.size()) == seen.nodes, "each node has its own ranks");
  int next = 0;
  for (const auto& [first, workers] : seen.first_ranks) {
    require(first == next, "the ranks have no gap and do not overlap");
    next = first + workers;
  }
  require(next == seen.world_size, "the ranks are the world");
  check_kept();
  check_asked_ranks(seen);
}

/// A rank that only one node asks for is that node's, where it exists.
void SimJob::check_asked_ranks(const RoundSeen& seen) {
  std::map<int, int> asked;
  for (const auto& [session, rank] : seen.group_ranks)
    ++asked[agent_of(session).host->node_rank.value_or(-1)];
  for (const auto& [session, rank] : seen.group_ranks) {
    const auto wish = agent_of(session).host->node_rank;
    if (!wish || *wish >= seen.nodes) continue;
    require(asked[*wish] == 1 || plan_.ranks != Ranks::insisted, "no rank is two nodes'");
    require(asked[*wish] > 1 || rank == *wish,
            fmt::format("{} has the rank {} that it asks for, not {}", session, *wish, rank));
  }
}

/// A node that failed its check has no rank, and neither has a spare that was not checked again.
void SimJob::check_soundness(const RoundId& id) {
  if (!faults_.nodes_are_checked) return;
  const auto& sessions = rounds_[id].group_ranks;
  std::set<proto::AgentId> in_round;
  for (const auto& [session, rank] : sessions) in_round.insert(agent_of(session).id);
  for (auto& [name, agent] : agents_) {
    const bool takes_part = in_round.contains(name);
    // One that has forgotten the newest round forms another one, out of the same nodes.
    require(!takes_part || agent.is_sound || faults_.service_forgets,
            name + " has passed its check before it gets a rank");
    // One of which the answer is on its way is no spare yet.
    agent.is_sound = agent.is_sound && (takes_part || !agent.is_sound_told);
  }
}

/// A node on which two rounds in a row failed has no rank in the next one while a spare
/// waits.
void SimJob::check_failing_node(const RoundSeen& seen, const rdzv::Membership& membership) {
  const bool again = !seen.failed_before.empty() && seen.failed_before == failing_;
  failing_rounds_ = again ? failing_rounds_ + 1 : 1;
  failing_ = seen.failed_before;
  const bool can_tell = failing_rounds_ >= 2 && !failing_.empty() && !faults_.service_forgets &&
                        plan_.ranks != Ranks::insisted;
  if (!can_tell) return;
  const auto waits = [&](const proto::AgentId& session) {
    return joined_.contains(session) && membership.node(session) &&
           !membership.group_rank(session) && !membership.current(session);
  };
  if (waits(failing_)) return happened("node stepped back");
  const bool spare_waits = std::any_of(joined_.begin(), joined_.end(), waits);
  require(!spare_waits || !membership.group_rank(failing_),
          failing_ + " has failed twice in a row and gives its place to a spare");
}

void SimJob::workers_started(Agent& agent) {
  // Each node offers a store of its own, so these tell rounds apart also if numbers begin anew.
  const auto group_of = [](const Agent& one) {
    const proto::Round& round = one.node->machine().round()->round;
    return std::pair(round.number, round.master_port);
  };
  const proto::Round& round = agent.node->machine().round()->round;
  require(agent.node->broken().empty(), agent.id + ": " + agent.node->broken());
  world_.note(fmt::format("{} starts {}", agent.id, round.number));
  newest_started_ = std::max(newest_started_.value_or(round.number), round.number);
  agent.past = {RoundId{round.epoch, round.number}, round.number, round.restart_count};
  require(history_.outcome || agent.stranger == Stranger::no ||
              agent.stranger == Stranger::other_settings,
          agent.id + " is another job's, or has no proof, and takes no part");
  for (const auto& [id, other] : agents_) {
    if (other.node->suspended() || other.node->live_workers() == 0) continue;
    require(group_of(other) == group_of(agent),
            fmt::format("{} has workers of another round than {}", id, agent.id));
  }
  watch();
}

// ---- the outcome ----

void SimJob::see_outcomes(const rdzv::Membership& membership) {
  const Finished& outcome = *membership.outcome();
  if (!outcomes_.empty() && is_same(outcomes_.back(), outcome)) return;
  outcomes_.push_back(outcome);
  if (history_.outcome) return;
  history_.outcome = outcome;
  for (auto& [session, state] : rendezvous_.job()->sessions()) {
    Agent& agent = agent_of(session);
    agent.was_there = agent.node->alive() && !state.node_name.empty() &&
                      agent.link->session().own_id() == session;
  }
  for (Agent* agent : alive()) agent->was_there |= agent->past.newest.has_value();
}

/// The service tells all agents the same. One may end its own part before, and one that has heard
/// nothing for long ends without an outcome.
void SimJob::check_told(const Agent& agent) {
  const bool is_stranger =
      agent.stranger != Stranger::no && agent.stranger != Stranger::other_settings;
  const bool is_refused = agent.is_unsound || agent.told->reason.starts_with("--node-rank=");
  if (agent.leaves || is_refused) return;
  if (is_stranger && !history_.outcome)
    return require(agent.told->outcome == Finished::Outcome::failed, agent.id + " is refused");
  if (is_stranger) return;
  if (!agent.link->was_told()) {
    // Its clock may be a hundredth slower than its limit.
    const auto limit = std::min(plan_.lost_timeout, plan_.job.join_timeout);
    require(faults_.service_forgets || agent.link->silence() >= limit,
            fmt::format("{} ends without the outcome: {}", agent.id, agent.told->reason));
    return;
  }
  const bool is_unknown = agent.told->reason.ends_with("its outcome is unknown");
  // Nor does one know it that was given up while the others were still ending theirs.
  const bool was_given_up = agent.link->session().own_id() != agent.id;
  if ((faults_.service_forgets || was_given_up) && is_unknown) return;
  const auto same = [&](const Finished& outcome) { return is_same(outcome, *agent.told); };
  const bool is_known = std::any_of(outcomes_.begin(), outcomes_.end(), same);
  require(is_known,
          fmt::format("{} is told an outcome of the job, not: {}", agent.id, agent.told->reason));
  const bool is_one = agent.was_there && outcomes_.size() == 1;
  require(!is_one || same(outcomes_.front()), agent.id + " is told the outcome of the job");
  ++history_.told;
}

void SimJob::check_end() {
  require(rendezvous_.broken().empty(), rendezvous_.broken());
  // A service that has forgotten the job need not learn that its last nodes have left.
  require(history_.outcome || history_.cells.empty() || faults_.service_forgets,
          "the job has an outcome");
  for (const Agent* agent : alive()) require(false, fmt::format("{} was told the end", agent->id));
  // One that has forgotten a round before a node heard of it forms another one of its number.
  if (!faults_.service_forgets && history_.outcome &&
      history_.outcome->outcome == Finished::Outcome::succeeded) {
    const RoundSeen& last = rounds_.rbegin()->second;
    require(last.done == last.nodes, "all nodes of the last round were done");
  }
  if (history_.outcome && history_.outcome->verdict && !rounds_.empty())
    check_culprit(rounds_.rbegin()->second, history_.outcome->verdict->culprit);
  if (faults_.are_mild) check_unnoticed();
}

/// No fault of a worker or a node: nobody notices the others.
void SimJob::check_unnoticed() {
  require(last_restart_count_ == 0, "no restart without a fault");
  for (const auto& [id, round] : rounds_)
    require(id == rounds_.begin()->first || round.reason.ends_with(" joined"),
            fmt::format("no other round without a fault: {}", round.reason));
  require(history_.outcome && history_.outcome->outcome == Finished::Outcome::succeeded,
          "a job without faults succeeds");
}

}  // namespace ddprun::sim
