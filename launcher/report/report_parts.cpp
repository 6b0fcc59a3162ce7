#include "launcher/report/report_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "agent/progress/stack_methods.hpp"
#include "base/describe.hpp"
#include "launcher/report/screen_text.hpp"
#include "proto/failure_text.hpp"

namespace ddprun::launcher {

namespace {

std::string suspended_text(const proto::Verdict& verdict) {
  std::vector<int> list;
  for (const proto::Suspect& suspect : verdict.suspects) list.push_back(suspect.rank);
  return fmt::format("ddprun: {} {} suspended by a signal (SIGSTOP) when the round was stopped\n",
                     ranks_text(list), list.size() == 1 ? "was" : "were");
}

/// The first worker that waited until its time-out: not always the one that failed first.
int first_timed_out(const proto::Verdict& verdict) {
  const proto::FailedWorker* first = nullptr;
  const auto look_at = [&](const proto::FailedWorker& worker) {
    const proto::Evidence& evidence = worker.failure.evidence;
    if (!evidence.timed_out) return;
    if (first == nullptr || evidence.at < first->failure.evidence.at) first = &worker;
  };
  look_at(verdict.culprit);
  std::for_each(verdict.alike.begin(), verdict.alike.end(), look_at);
  std::for_each(verdict.victims.begin(), verdict.victims.end(), look_at);
  return (first != nullptr ? *first : verdict.culprit).rank;
}

std::string ended_headline(const proto::Verdict& verdict) {
  const auto first =
      std::min_element(verdict.ended.begin(), verdict.ended.end(),
                       [](const auto& a, const auto& b) { return a.worker.at < b.worker.at; });
  // Its process may have ended a moment after its connections.
  const auto before = verdict.culprit.failure.evidence.at - first->worker.at;
  const std::string when =
      before.count() > 0 ? fmt::format("{} earlier", describe(before)) : "at that time";
  if (verdict.ended.size() > 1) {
    return fmt::format(
        "ddprun: culprit: probably one of {}, which had ended with exit code 0, the first {}\n",
        proto::name_of_ended(verdict), when);
  }
  return fmt::format(
      "ddprun: culprit: probably {}, which had ended with exit code 0, {}\n",
      worker_text(first->rank, first->node, first->worker.local_rank, first->worker.pid), when);
}

}  // namespace

std::string worker_text(int rank, const std::string& node, int local_rank, int pid) {
  return fmt::format("rank {} ({}local rank {}{})", rank, node.empty() ? "" : node + ", ",
                     local_rank, pid > 0 ? fmt::format(", pid {}", pid) : "");
}

std::string suspects_headline(const proto::Verdict& verdict) {
  if (!verdict.ended.empty()) return ended_headline(verdict);
  std::string names = proto::name_of_suspects(verdict);
  if (names.empty()) return "";
  std::string how = "were";
  if (const proto::Suspect* one = proto::likely_suspect(verdict)) {
    names = worker_text(one->rank, one->node, one->worker.local_rank, one->worker.pid);
    const std::size_t count = verdict.suspects.size();
    how = count == 1 ? "was" : fmt::format("was furthest behind of {} that were", count);
  }
  return fmt::format(
      "ddprun: culprit: probably {}, which {} still running when rank {} timed out waiting\n",
      names, how, first_timed_out(verdict));
}

std::string suspects_text(const proto::Verdict& verdict) {
  if (verdict.suspects.empty()) return "";
  if (verdict.suspects.front().worker.suspended) return suspended_text(verdict);
  std::vector<int> list;
  const proto::Suspect* likely = proto::likely_suspect(verdict);
  const proto::Suspect* shown = nullptr;  // its stacks are
  const auto step = [](const proto::Suspect& suspect) {
    return suspect.worker.progress ? suspect.worker.progress->step
                                   : std::numeric_limits<std::uint64_t>::max();
  };
  for (const proto::Suspect& suspect : verdict.suspects) {
    list.push_back(suspect.rank);
    if (suspect.worker.stacks.empty() || (likely != nullptr && &suspect != likely)) continue;
    if (shown == nullptr || step(suspect) < step(*shown)) shown = &suspect;
  }
  std::string named = likely == nullptr ? "one of them" : fmt::format("rank {}", likely->rank);
  if (list.size() == 1) named = "it";
  std::string text = fmt::format(
      "ddprun: {} {} still running: {} probably hangs (--progress-timeout would make sure)\n",
      ranks_text(list), list.size() == 1 ? "was" : "were", named);
  if (shown != nullptr)
    text += stacks_text(fmt::format("rank {}", shown->rank), shown->worker.stacks);
  return text;
}

namespace {

constexpr std::size_t kLinesShown = 30;
constexpr std::size_t kLineBytesShown = 160;

}  // namespace

/// /proc has no stacks, only the state of each thread.
std::string stacks_text(std::string_view owner, const std::vector<std::string>& stacks) {
  if (stacks.empty()) return "";
  const agent::FirstThread first = agent::first_thread_of_python(stacks);
  const std::size_t shown = std::min(first.lines, kLinesShown);
  const std::string_view what = stacks.front().starts_with("from /proc") ? "threads" : "stacks";
  const std::string title =
      owner.empty() ? fmt::format("its {}", what) : fmt::format("the {} of {}", what, owner);
  std::string text =
      fmt::format("ddprun: {}, {}\n", title, on_screen(stacks.front(), kTextBytesShown));
  for (std::size_t i = 1; i < shown; ++i)
    text += "    " + on_screen(stacks[i], kLineBytesShown) + "\n";
  if (shown < first.lines) {
    text +=
        fmt::format("    ... and {} more lines, which --report=FILE has\n", stacks.size() - shown);
  } else if (first.other_threads > 0) {
    text += fmt::format("    ... and {}, which --report=FILE has\n",
                        counted(static_cast<int>(first.other_threads), "more thread"));
  }
  return text;
}

namespace {

/// Where several nodes have one name, the line has the longer names of their agents:
/// `node3-4711-c8991ace`.
bool is_named_in(std::string_view line, const proto::UnsoundNode& node) {
  if (!line.starts_with(node.node)) return false;
  line.remove_prefix(node.node.size());
  return line.starts_with('-') ? line.find(" " + node.reason) != std::string_view::npos
                               : line.starts_with(" " + node.reason);
}

}  // namespace

std::string unsound_text(const std::vector<proto::UnsoundNode>& unsound,
                         std::string_view next_line) {
  std::string text;
  for (const proto::UnsoundNode& one : unsound) {
    if (one.times == 1 && is_named_in(next_line, one)) continue;
    text += fmt::format("ddprun: {} {}{}\n", one.node, on_screen(one.reason, kTextBytesShown),
                        one.times > 1 ? fmt::format(" ({} times)", one.times) : "");
  }
  return text;
}

namespace {

/// By the nearest-rank method: the first that at least `hundredths` of all do not exceed.
std::chrono::nanoseconds percentile(const std::vector<std::chrono::nanoseconds>& sorted,
                                    std::size_t hundredths) {
  return sorted[(sorted.size() * hundredths + 99) / 100 - 1];
}

}  // namespace

RecoveryTimes recovery_times(const agent::ChaosSummary& chaos) {
  const auto& sorted = chaos.recoveries;
  return {percentile(sorted, 50), percentile(sorted, 90), sorted.back()};
}

std::string chaos_text(const agent::ChaosSummary& chaos) {
  std::string kinds;
  int all = 0;
  for (const auto& [fault, count] : chaos.faults) {
    all += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, to_string(fault));
  }
  std::string text = fmt::format("ddprun: chaos (seed {}): {}{}", chaos.seed, counted(all, "fault"),
                                 kinds.empty() ? "" : " (" + kinds + ")");
  if (!chaos.recoveries.empty()) {
    const RecoveryTimes times = recovery_times(chaos);
    text +=
        fmt::format("; {}: {} (median), {} (p90), {} (longest)",
                    counted(static_cast<int>(chaos.recoveries.size()), "recovery", "recoveries"),
                    describe(times.median), describe(times.p90), describe(times.longest));
  }
  return text + "\n";
}

}  // namespace ddprun::launcher
