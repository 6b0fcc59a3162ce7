#include "agent/control/descendants.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "base/describe.hpp"

namespace ddprun::agent {

using namespace std::chrono_literals;

namespace {

constexpr auto kSayStuckAfter = 1s;  // of leftovers that SIGKILL has not ended
// What else is to be done waits no longer for them.
constexpr auto kWalkTurn = 20ms;
constexpr auto kKillTurn = 400ms;
constexpr auto kSignalTurn = 20ms;
constexpr std::size_t kLeftoversNamed = 8;
constexpr int kFenceLooksMax = 8;  // for processes that a fenced round forks while it is killed

}  // namespace

void in_turns(boost::asio::io_context& context, std::function<bool()> turn) {
  if (turn()) return;
  boost::asio::post(context, [&context, turn = std::move(turn)]() mutable {
    in_turns(context, std::move(turn));
  });
}

void Descendants::find(std::function<void(Processes)> found) {
  in_turns(context_,
           [this, walk = std::make_shared<machine::ProcessWalk>(), found = std::move(found)] {
             if (!walk->go_on(Clock::now() + kWalkTurn)) return false;
             found(events_.kept().others_of(walk->take_descendants()));
             return true;
           });
}

void Descendants::terminate(Clock::duration patience, std::function<bool()> is_wanted) {
  find([this, patience, is_wanted = std::move(is_wanted)](Processes left) {
    if (!is_wanted()) return;  // all have ended, or SIGKILL's time has come
    name_leftovers(left, patience);
    in_turns(context_, [is_wanted, left = std::move(left), next = std::size_t{0}]() mutable {
      const auto until = Clock::now() + kSignalTurn;
      for (; next < left.size() && Clock::now() < until; ++next) {
        machine::signal_process(left[next], SIGTERM);
        machine::signal_process(left[next], SIGCONT);  // a stopped process cannot act on it
      }
      return next == left.size() || !is_wanted();
    });
  });
}

void Descendants::name_leftovers(const Processes& left, Clock::duration patience) {
  if (left.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < left.size() && i < kLeftoversNamed; ++i)
    names += (i > 0 ? ", " : "") + machine::name_of(left[i]);
  if (left.size() > kLeftoversNamed)
    names += fmt::format(" and {} more", left.size() - kLeftoversNamed);
  events_.notice(fmt::format(
      "the workers have exited but left processes running: {}; sent SIGTERM, SIGKILL in {}", names,
      describe(patience)));
}

void Descendants::kill(proto::RoundNumber round, Clock::duration limit,
                       std::function<void()> ended) {
  begin_kill(round, limit);
  in_turns(context_, [this, number = kill_number_, ended = std::move(ended)] {
    if (number != kill_number_) return true;
    if (!go_on(kKillTurn)) return false;
    ended();
    return true;
  });
}

void Descendants::kill_now(proto::RoundNumber round, Clock::duration limit) {
  begin_kill(round, limit);
  while (!go_on(kSayStuckAfter)) {
  }
}

void Descendants::begin_kill(proto::RoundNumber round, Clock::duration limit) {
  ++kill_number_;
  const auto now = Clock::now();
  if (cgroup_ != nullptr && events_.kept().sessions.empty()) cgroup_->kill();
  if (kill_) note_reaped(kill_->killer.reaped());  // its turns end now
  kill_.emplace(Kill{machine::ChildrenKiller(
                         now + limit,
                         [round](const machine::ProcessEntry& process) {
                           spdlog::info("round={} left behind: {}: SIGKILL", round,
                                        machine::name_of(process));
                         },
                         machine::signal_process, events_.kept),
                     now + limit, now + kSayStuckAfter});
}

/// True: nothing is left, or it is given up.
bool Descendants::go_on(Clock::duration limit) {
  const auto& left = kill_->killer.left();
  if (kill_->killer.go_on(Clock::now() + limit)) {
    for (const machine::ProcessEntry& process : left)
      unkillable_.push_back(machine::describe_stuck(process));
    note_reaped(kill_->killer.reaped());
    kill_.reset();
    return true;
  }
  const auto now = Clock::now();
  if (kill_->say_stuck_at && now >= *kill_->say_stuck_at && now < kill_->ends_at && !left.empty()) {
    kill_->say_stuck_at.reset();
    const auto more = left.size() - 1;
    events_.notice(fmt::format(
        "SIGKILL has not ended {}{}; waiting for at most {} (--kill-timeout)",
        machine::describe_stuck(left.front()), more > 0 ? fmt::format(" and {} more", more) : "",
        describe(std::chrono::ceil<std::chrono::seconds>(kill_->ends_at - now))));
  }
  return false;
}

Descendants::Processes Descendants::kill_silently(Clock::duration limit) {
  if (cgroup_ != nullptr && events_.kept().sessions.empty()) cgroup_->kill();
  machine::ChildrenKiller killer(Clock::now() + limit, {}, machine::signal_process, events_.kept);
  killer.go_on(Clock::time_point::max());
  note_reaped(killer.reaped());
  return killer.left();
}

void Descendants::send_kill() {
  if (cgroup_ != nullptr) cgroup_->kill();
  machine::KeptProcesses kept = events_.kept();
  kept.sessions.clear();
  std::set<std::pair<pid_t, std::uint64_t>> sent;
  bool is_new = true;
  // Some may be forked meanwhile. Those that are forked for ever end with the leftovers of the
  // round.
  for (int looks = 0; std::exchange(is_new, false) && looks < kFenceLooksMax; ++looks) {
    for (const machine::ProcessEntry& process : kept.others_of(machine::live_descendants())) {
      const std::pair identity(process.pid, process.start_time);
      if (sent.contains(identity) || !machine::signal_process(process, SIGKILL)) continue;
      sent.insert(identity);
      is_new = true;
    }
  }
}

void Descendants::name_stuck(std::chrono::seconds left) {
  find([this, left](const Processes& all) {
    for (const machine::ProcessEntry& process : all) {
      if (process.parent != getpid()) continue;
      events_.notice(fmt::format("SIGKILL has not ended {} yet; giving up in {} s",
                                 machine::describe_stuck(process), left.count()));
    }
  });
}

void Descendants::note_reaped(const std::set<pid_t>& pids) const {
  for (const pid_t pid : pids) events_.reaped(pid);
}

namespace {

constexpr std::size_t kEndedMax = 100'000;  // remembered of a round

}  // namespace

/// Files of those that go on, and of those that have ended since the last round, are older.
void SharedMemoryCleanup::begin_round(std::chrono::system_clock::time_point now, bool any_goes_on) {
  if (!round_) round_.emplace(machine::EndedProcesses{{}, now});
  if (!any_goes_on && round_->pids.empty()) round_->since = now;
}

void SharedMemoryCleanup::note_end(pid_t pid) {
  if (round_ && round_->pids.size() < kEndedMax) round_->pids.insert(pid);
}

void SharedMemoryCleanup::end_round(const std::vector<WorkerRecord>& workers) {
  if (!round_) return;
  const bool in_order = std::all_of(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.exit && worker.exit->success();
  });
  machine::EndedProcesses ended{std::exchange(round_->pids, {}), round_->since};
  if (in_order && ended.pids.size() <= workers.size()) return;
  removals_.emplace_back(std::move(ended), folder_);
}

bool SharedMemoryCleanup::remove_next() {
  if (removals_.empty()) return true;
  if (removals_.front().remove_next()) return false;
  if (const int removed = removals_.front().removed(); removed > 0)
    spdlog::info("removed {} files of shared memory that ended processes had left in {}", removed,
                 folder_);
  removals_.pop_front();
  return removals_.empty();
}

}  // namespace ddprun::agent
