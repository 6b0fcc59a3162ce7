// The table of the membership core, and what it is asked.
#include "rendezvous/membership/membership.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace ddprun::rdzv {

using proto::AgentId;

std::string_view to_string(JobState state) {
  static constexpr std::array<std::string_view, kJobStates> kNames{"forming", "running", "stopping",
                                                                   "finished"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view to_string(EventKind kind) {
  static constexpr std::array<std::string_view, kEventKinds> kNames{
      "join",  "started", "worker_failed", "workers_done", "stopped",
      "leave", "checked", "ask_restart",   "lost",         "deadline"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool carries(const Send& send, const std::string& warning) {
  if (const auto* remark = std::get_if<proto::Remark>(&send.message))
    return warning.ends_with(remark->text);
  const auto* finished = std::get_if<proto::Finished>(&send.message);
  return finished != nullptr && finished->reason.starts_with(warning);
}

namespace {

struct Response {
  void (*handler)(State&, JobFacts&, const MembershipEvent&, Context&);
  std::string_view name;
};

/// What a handler is for: an event without a message, or one message.
template <class Part>
const Part& part_of(const MembershipEvent& event) {
  if constexpr (std::is_same_v<Part, AgentLost> || std::is_same_v<Part, DeadlinePassed>) {
    return std::get<Part>(event);
  } else {
    return std::get<Part>(std::get<FromAgent>(event).message);
  }
}

template <auto kHandler>
struct Call;
template <class Of, class Part, void (Of::*kHandler)(JobFacts&, const Part&, Context&)>
struct Call<kHandler> {
  static void now(State& state, JobFacts& job, const MembershipEvent& event, Context& context) {
    (std::get<Of>(state).*kHandler)(job, part_of<Part>(event), context);
  }
};

template <auto kHandler>
constexpr Response does(std::string_view name) {
  return {&Call<kHandler>::now, name};
}

constexpr Response kIgnored{[](State&, JobFacts&, const MembershipEvent&, Context&) {}, "ignored"};

// A row for each event, in the order of EventKind; a column for each state. A test compares the
// table with the one in docs/architecture.md.
constexpr Response kTable[kEventKinds][kJobStates] = {
    // forming, running, stopping, finished
    {does<&Forming::on_join>("wait, form if complete"),  // join
     does<&Running::on_join>("wait, then grow if there is room"), does<&Stopping::on_join>("wait"),
     does<&Finished::on_join>("told the outcome")},
    {kIgnored, kIgnored, kIgnored, kIgnored},  // started
    {kIgnored, does<&Running::on_worker_failed>("stop the round"), kIgnored, kIgnored},
    {kIgnored, does<&Running::on_workers_done>("finish when all are done"), kIgnored, kIgnored},
    {kIgnored, kIgnored,  // stopped
     does<&Stopping::on_stopped>("judge when all have stopped and told their times by one clock, "
                                 "then form the next round or finish"),
     kIgnored},
    {does<&Forming::on_leave>("forget, or finish"),  // leave
     does<&Running::on_leave>("end the round"), does<&Stopping::on_leave>("leave once stopped"),
     kIgnored},
    {does<&Forming::on_checked>("form if complete, or refuse the node"),  // checked
     does<&Running::on_checked>("as a join, or refuse the node"),
     does<&Stopping::on_checked>("wait, or refuse the node"), kIgnored},
    {kIgnored, does<&Running::on_ask_restart>("end the round, start all workers"),  // ask_restart
     kIgnored, kIgnored},
    {does<&Forming::on_lost>("forget"), does<&Running::on_lost>("end the round"),  // lost
     does<&Stopping::on_lost>("count as stopped"), kIgnored},
    {does<&Forming::on_deadline>("form after last call, or give up"),  // deadline
     does<&Running::on_deadline>("grow"), kIgnored, kIgnored},
};

static_assert(std::is_same_v<
                  proto::AgentMessage,
                  std::variant<proto::Join, proto::Started, proto::WorkerFailed, proto::WorkersDone,
                               proto::Stopped, proto::Leave, proto::Checked, proto::AskRestart>>,
              "EventKind begins in the order of the messages");

const Response& response_to(JobState state, EventKind kind) {
  return kTable[static_cast<std::size_t>(kind)][static_cast<std::size_t>(state)];
}

}  // namespace

std::string_view Membership::response(JobState state, EventKind kind) {
  return response_to(state, kind).name;
}

Membership::Membership(proto::JobSettings settings, Clock::time_point now, proto::Epoch epoch,
                       Clock::time_point job_began)
    : job_(std::move(settings), epoch, job_began), state_(Forming{.since = now}) {}

Membership::Membership(const MembershipSnapshot& snapshot, Clock::time_point job_began)
    : job_(snapshot, job_began), state_(Running{}) {}

void Membership::restore(const AgentId& agent, const NodeSnapshot& node) {
  job_.roster.restore(agent, node);
}

void Membership::restore(const std::string& process, const proto::Losses& losses) {
  job_.losses[process] = losses;
}

MembershipActions Membership::on(const MembershipEvent& event, Clock::time_point now) {
  static const AgentId kNobody;
  const auto* from = std::get_if<FromAgent>(&event);
  const auto* lost = std::get_if<AgentLost>(&event);
  EventKind kind = EventKind::deadline;
  if (from != nullptr) kind = static_cast<EventKind>(from->message.index());
  if (lost != nullptr) kind = EventKind::lost;
  const AgentId& agent = from != nullptr ? from->agent : lost != nullptr ? lost->agent : kNobody;
  Context context{.agent = agent, .now = now};
  const JobState before = state();
  response_to(before, kind).handler(state_, job_, event, context);
  while (context.next) {
    state_ = *std::exchange(context.next, std::nullopt);
    std::visit([&](auto& entered) { entered.enter(job_, context); }, state_);
  }
  if (context.goodbye) {
    const auto* finished = std::get_if<Finished>(&state_);
    context.actions.send(agent, finished != nullptr ? finished->outcome_for(agent, job_)
                                                    : outcome_of(*context.goodbye));
  }
  if (state() != before) {
    context.actions.log =
        fmt::format("round={} {}->{} event={} agent={} nodes={} reason=\"{}\"",
                    job_.next_round == 0 ? 0 : job_.next_round - 1, to_string(before),
                    to_string(state()), to_string(kind), agent, job_.roster.size(), job_.reason);
  }
  return std::move(context.actions);
}

void Membership::hold_until(Clock::time_point when) {
  auto* forming = std::get_if<Forming>(&state_);
  if (forming != nullptr && !job_.formed_any)
    forming->not_before = std::max(forming->not_before.value_or(when), when);
}

void Membership::hold_incomplete_until(Clock::time_point when) {
  job_.incomplete_not_before = when;
  auto* forming = std::get_if<Forming>(&state_);
  if (forming != nullptr && forming->last_call_at)
    forming->last_call_at = std::max(*forming->last_call_at, when);
}

void Membership::go_on_from(const proto::PastRound& past) {
  job_.add_past(past);
  if (state() == JobState::forming) job_.resume_from_past();
}

std::optional<Clock::time_point> Membership::deadline() const {
  if (const auto* forming = std::get_if<Forming>(&state_)) return forming->deadline(job_);
  const auto* running = std::get_if<Running>(&state_);
  return running != nullptr ? running->grow_at : std::nullopt;
}

std::optional<int> Membership::group_rank(const AgentId& agent) const {
  const Roster::Entry* entry = job_.roster.find(agent);
  if (entry == nullptr || !entry->second.in_round()) return std::nullopt;
  return entry->second.seat->group_rank;
}

const proto::Finished* Membership::outcome() const {
  const auto* finished = std::get_if<Finished>(&state_);
  return finished != nullptr ? &finished->outcome : nullptr;
}

std::optional<proto::MembershipMessage> Membership::current(const AgentId& agent) const {
  if (const auto* finished = std::get_if<Finished>(&state_))
    return finished->outcome_for(agent, job_);
  const Roster::Entry* entry = job_.roster.find(agent);
  if (entry == nullptr) return std::nullopt;
  const Member& member = entry->second;
  if (member.phase == Phase::checking) return proto::Check{member.check};
  if (!member.in_round()) return std::nullopt;
  if (const auto* stopping = std::get_if<Stopping>(&state_))
    return stopping->stop_for(member, job_);
  return job_.round_for(*member.seat);
}

bool Membership::is_at_rest() const {
  const auto* running = std::get_if<Running>(&state_);
  // A round that is to grow ends soon, and a snapshot has these two phases only.
  const int kept = job_.roster.count(Phase::active) + job_.roster.count(Phase::waiting);
  return running != nullptr && !running->grow_at && kept == job_.roster.size() &&
         job_.policy.history().restarts.size() <= RestartHistory::kRestartsMax;
}

std::optional<NodeSnapshot> Membership::node(const AgentId& agent) const {
  const Roster::Entry* entry = job_.roster.find(agent);
  if (entry == nullptr) return std::nullopt;
  NodeSnapshot node = entry->second;
  if (entry->second.phase != Phase::active) node.seat.reset();
  return node;
}

}  // namespace ddprun::rdzv
