// A node's machine with a shell that is scripted: it obeys at once, and writes down what it was
// told.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "agent/node/node_machine.hpp"
#include "base/describe.hpp"

namespace ddprun::test {

using namespace std::chrono_literals;

inline std::string in_seconds(std::chrono::nanoseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

class ScriptedNode {
 public:
  static constexpr ExitStatus kSuccess{false, 0, false};
  static constexpr ExitStatus kCode3{false, 3, false};
  static constexpr ExitStatus kKilled{true, SIGKILL, false};
  static constexpr ExitStatus kTerminated{true, SIGTERM, false};

  /// It has joined; or it has left for its problem.
  explicit ScriptedNode(int workers, std::string why = "") : problem(std::move(why)) {
    config.workers.resize(static_cast<std::size_t>(workers));
    config.stop.grace_period = 10s;
    config.stop.kill_timeout = 5s;
    conditions.resize(config.workers.size());
    on(agent::Prepared{"10.0.0.1", 1000, 0, false, problem});
  }

  void on(agent::NodeEvent event) {
    events_.push_back(std::move(event));
    if (events_.size() > 1) return;
    for (; !events_.empty(); events_.pop_front()) {
      for (const agent::NodeAction& action : machine.on(std::move(events_.front()), now))
        std::visit([this](const auto& specific) { obey(specific); }, action);
    }
  }

  void round(int number = 0) {
    proto::Round round;
    round.number = static_cast<proto::RoundNumber>(number);
    round.restart_count = number;
    round.max_restarts = 3;
    round.reason = number == 0 ? "first round" : "rank 1 failed";
    on(std::move(round));
  }
  void start() {
    agent::WorkersStarted started;
    for (int i = 0; i < static_cast<int>(config.workers.size()); ++i) {
      const auto& keep = machine.round()->round.keep;
      if (std::find(keep.begin(), keep.end(), i) != keep.end()) {
        const auto& kept = machine.round()->group.workers()[static_cast<std::size_t>(i)];
        started.workers.push_back({kept.pid, now, ""});
        continue;
      }
      started.workers.push_back(i == cannot_start ? agent::StartedWorker{0, {}, "no such file"}
                                                  : agent::StartedWorker{100 + i, now, ""});
    }
    on(std::move(started));
  }
  void stop(bool final = false, bool may_save = false) {
    on(proto::Stop{machine.round() != nullptr ? machine.round()->round.number : 0, "", final, false,
                   may_save});
  }
  /// What `hold_kill` held back: SIGKILL has ended them, or is given up.
  void killed() {
    if (!std::exchange(kills_, false)) return;
    left = stuck;
    on(agent::LeftoversSeen{left});
  }
  void exits(int local_rank, ExitStatus exit) {
    on(agent::WorkerExited{local_rank, exit, false, false});
  }
  void signal(int signal) { on(agent::JobSignal{signal, now.time_since_epoch()}); }
  void finished() { on(proto::Finished{}); }
  void pass(agent::Clock::duration time) {
    now += time;
    if (machine.deadline() && *machine.deadline() <= now) on(agent::TimePassed{});
  }

  /// What it did since this was asked last.
  std::vector<std::string> took() { return std::exchange(took_, {}); }

  agent::AgentConfig config;
  agent::Clock::time_point now{1h};
  agent::NodeMachine machine{config};
  std::string problem;  // of the next preparation
  bool hold_start = false;
  bool hold_kill = false;    // of leftovers
  bool hold_output = false;  // of failed workers
  int cannot_start = -1;
  bool left = false;   // the workers have left processes
  bool stuck = false;  // which SIGKILL does not end
  std::vector<machine::ChildCondition> conditions;
  agent::StartWorkers newest_start;
  std::vector<proto::AgentMessage> sent;
  proto::Finished finished_with;  // the job

 private:
  void note(std::string text) { took_.push_back(std::move(text)); }

  void obey(const agent::Prepare&) {
    note("prepare");
    on(agent::Prepared{"10.0.0.1", 1001, 0, false, problem});
  }
  void obey(const agent::RunCheck&) { note("run the check"); }
  void obey(const agent::StopCheck&) { note("stop the check"); }
  void obey(const agent::AwaitGpus&) { note("await the GPUs"); }
  void obey(const agent::Send& action) {
    note("send " + std::visit([](const auto& message) { return name(message); }, action.message));
    sent.push_back(action.message);
  }
  static std::string name(const proto::AskRestart&) { return "ask_restart"; }
  static std::string name(const proto::Join&) { return "join"; }
  static std::string name(const proto::Started&) { return "started"; }
  static std::string name(const proto::WorkersDone&) { return "done"; }
  static std::string name(const proto::Stopped& stopped) {
    return fmt::format("stopped {}", stopped.round);
  }
  static std::string name(const proto::WorkerFailed& failed) {
    const std::string why = failed.error + failed.hang;
    return fmt::format("failed {} at {}{}", failed.local_rank, in_seconds(failed.at),
                       why.empty() ? "" : ": " + why);
  }
  static std::string name(const proto::Checked& checked) {
    return fmt::format("checked {}: {}{}", checked.number, checked.passed ? "passed" : checked.text,
                       checked.hosts ? ", hosts" : "");
  }
  static std::string name(const proto::Leave& leave) {
    return leave.signal != 0 ? "leave " + signal_name(leave.signal) : "leave: " + leave.error;
  }

  void obey(const agent::Notice& action) { note("notice: " + action.line); }
  void obey(const agent::StartWorkers& action) {
    newest_start = action;
    note("start workers");
    if (!hold_start) start();
  }
  void obey(const agent::SignalWorkers& action) { note("signal " + signal_name(action.signal)); }
  void obey(const agent::StopWorkers& action) {
    note("stop workers by " + signal_name(action.signal) + (action.resume ? ", continue all" : "") +
         (action.may_save ? ", they may save" : ""));
    on(agent::ConditionsSeen{conditions});
  }
  void obey(const agent::StopWatching&) { note("stop watching"); }
  void obey(const agent::LookAtSuspects& action) {
    note(fmt::format("look at suspects, {} timed out", action.local_rank));
  }
  void obey(const agent::LookForLeftovers&) {
    note("look for leftovers");
    on(agent::LeftoversSeen{left});
  }
  void obey(const agent::TerminateLeftovers& action) {
    note(fmt::format("terminate leftovers, {} left", in_seconds(action.patience)));
  }
  void obey(const agent::KillLeftovers& action) {
    note(fmt::format("kill leftovers within {}", in_seconds(action.limit)));
    kills_ = true;
    if (!hold_kill) killed();
  }
  void obey(const agent::ReadOutput&) {
    if (!hold_output) on(agent::OutputRead{});
  }
  void obey(const agent::ReportRound&) {
    note("report the round");
    sent.push_back(proto::Stopped{machine.round()->round.number, {}});
  }
  void obey(const agent::EndWithin& action) { note("end within " + in_seconds(action.limit)); }
  void obey(const agent::NameStuck& action) {
    note(fmt::format("name what is stuck, {} s left", action.left.count()));
  }
  void obey(const agent::PauseJob&) { note("pause"); }
  void obey(const agent::ResumeJob& action) {
    note(action.workers ? "resume with the workers" : "resume");
  }
  void obey(const agent::EndJob& action) {
    finished_with = action.finished;
    note(action.round_open ? "end the job, its round is open" : "end the job");
  }

  bool kills_ = false;
  std::deque<agent::NodeEvent> events_;
  std::vector<std::string> took_;
};

}  // namespace ddprun::test
