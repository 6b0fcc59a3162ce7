#include "agent/control/local_connections.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "agent/progress/progress_page.hpp"
#include "agent/workers/worker_environment.hpp"
#include "base/printable.hpp"

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;

// For the last events.
constexpr auto kCommandLimit = 10s;
constexpr auto kFileLimit = 2s;
constexpr auto kSayWaitAfter = 1s;
static_assert(kCommandLimit + kFileLimit == LocalConnections::kEndLimit);

Ledger::Stage stage_of(const NodeMachine& machine) {
  switch (machine.state()) {
    case NodeState::waiting:
      return Ledger::Stage::waiting;
    case NodeState::starting:
      return Ledger::Stage::starting;
    case NodeState::running:
      return machine.paused() ? Ledger::Stage::paused : Ledger::Stage::running;
    case NodeState::stopping:
    case NodeState::clearing:
      return Ledger::Stage::stopping;
    case NodeState::done:
      return Ledger::Stage::done;
    case NodeState::finishing:
    case NodeState::ending:
    case NodeState::over:
      break;
  }
  return Ledger::Stage::finishing;
}

/// By the lowest rank of this node that says it. None: none does.
std::optional<Ledger::RoundClock> round_clock(const AgentConfig& config, const NodeMachine& machine,
                                              Ledger::TimePoint now) {
  // What a worker says of a time to come is as good as now.
  const auto at = [now](std::uint64_t time_ns) {
    const auto latest = static_cast<std::uint64_t>(now.time_since_epoch().count());
    return Ledger::TimePoint(std::chrono::nanoseconds(std::min(time_ns, latest)));
  };
  const NodeRound* const round = machine.round();
  if (round == nullptr) return std::nullopt;
  const auto& workers = round->group.workers();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const auto page =
        read_progress_page(progress_file(config, workers[i].start, static_cast<int>(i))).page;
    if (!page || !page->times) continue;
    const PageTimes& times = *page->times;
    Ledger::RoundClock clock{.first_step = times.first_step,
                             .step = page->step,
                             .first_at = at(times.first_ns),
                             .reached_at = std::nullopt,
                             .saving = at(times.saving_ns).time_since_epoch()};
    if (times.reached_ns != 0) clock.reached_at = at(times.reached_ns);
    if (round->hang) clock.hung_since = round->hang->since;
    const auto saves_until = std::min(now, clock.hung_since.value_or(now));
    if (kind_of_phase(page->phase) == PhaseKind::saving)
      clock.saving += std::max(std::chrono::nanoseconds(0), saves_until - at(page->time_ns));
    return clock;
  }
  return std::nullopt;
}

void end_command(boost::asio::io_context& context, EventCommand& command,
                 const bool& is_in_a_hurry) {
  const auto began_at = Clock::now();
  context.restart();
  const auto is_done_by = [&](Clock::time_point limit) {
    while (command.is_busy() && !is_in_a_hurry && context.run_one_until(limit) > 0) {
    }
    return !command.is_busy() || is_in_a_hurry;
  };
  if (!is_done_by(began_at + kSayWaitAfter)) {
    std::fprintf(stderr, "ddprun: waiting for the command of --on-event, for at most %lld s\n",
                 static_cast<long long>(kCommandLimit.count()));
    is_done_by(began_at + kCommandLimit);
  }
  if (const std::uint64_t missed = command.stop(); missed > 0)
    std::fprintf(stderr,
                 "ddprun: warning: the command of --on-event was not told of up to %llu events\n",
                 static_cast<unsigned long long>(missed));
}

}  // namespace

void LocalConnections::open(boost::asio::io_context& context, const AgentConfig& config,
                            const NodeMachine& machine, const std::shared_ptr<RecentOutput>& output,
                            const std::function<void(const std::string& line)>& notice) {
  auto opened = JobSocket::open(
      context, {config.run_id, config.node.name, config.workers.size()}, events,
      {[this](const JobRequest& request, pid_t asker, JobSocket::Reply reply) {
         answers.answer(request, asker, std::move(reply));
       },
       [&config, &machine, output](const LogsWanted& wanted) -> FeedOrProblem {
         if (std::string problem = OutputFeed::why_not(machine, wanted); !problem.empty())
           return problem;
         return std::make_unique<OutputFeed>(output, config, machine, wanted);
       },
       [this](ElasticWorkers::Greeted greeted) { workers.take(std::move(greeted)); }});
  if (opened) {
    socket.emplace(std::move(*opened));
  } else {
    spdlog::info("no job socket: {}", opened.error().message());
  }
  const std::string& path = config.report.event_file;
  if (path.empty()) return;
  auto file = EventFile::open(path, config.node.name);
  if (file) {
    event_file.emplace(std::move(*file));
  } else {
    notice(fmt::format("warning: no events are written to {}: {}", path, file.error().message()));
  }
}

void LocalConnections::start() {
  if (socket) socket->start();
  if (commands.on_notice) commands.on_notice->start();
}

void LocalConnections::note(const NodeEvent& event, const NodeMachine& machine,
                            EventLog::Time now) {
  events.note(event, machine, now);
  tell();
}

void LocalConnections::note(Happening what, const NodeMachine& machine, EventLog::Time now) {
  std::optional<proto::RoundNumber> round;
  if (machine.round() != nullptr) round = machine.round()->round.number;
  events.add(std::move(what), round, now);
  tell();
}

void LocalConnections::tell() {
  if (socket) socket->on_news();
  if (event_file) event_file->follow(events);
  if (commands.on_event) commands.on_event->follow();
}

void LocalConnections::follow(const AgentConfig& config, const NodeMachine& machine) {
  const Ledger::Stage stage = stage_of(machine);
  if (stage == ledger.stage()) return;
  const auto now = Clock::now();
  ledger.enter(stage, now, ledger.has_run() ? round_clock(config, machine, now) : std::nullopt);
}

LedgerEntries LocalConnections::ledger_entries(const AgentConfig& config,
                                               const NodeMachine& machine,
                                               Ledger::TimePoint now) const {
  return ledger.entries(now, ledger.has_run() ? round_clock(config, machine, now) : std::nullopt);
}

void LocalConnections::end(boost::asio::io_context& context, const AgentConfig& config,
                           int exit_code) {
  if (socket) socket->on_job_end(exit_code);
  if (commands.on_event) end_command(context, *commands.on_event, is_in_a_hurry);
  if (!event_file) return;
  if (const std::uint64_t lost = event_file->finish(Clock::now() + kFileLimit); lost > 0)
    std::fprintf(stderr, "ddprun: warning: %llu bytes of events were not written to %s\n",
                 static_cast<unsigned long long>(lost),
                 printable(config.report.event_file).c_str());
}

}  // namespace ddprun::agent
