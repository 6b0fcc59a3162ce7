#include "launcher/report/report.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "agent/streams/console.hpp"
#include "base/describe.hpp"
#include "base/exit_codes.hpp"
#include "base/printable.hpp"
#include "launcher/options/launch_error.hpp"
#include "launcher/report/ledger_words.hpp"
#include "launcher/report/report_hints.hpp"
#include "launcher/report/report_parts.hpp"
#include "launcher/report/screen_text.hpp"
#include "proto/failure_text.hpp"
#include "rendezvous/membership/restart_policy.hpp"
#include "rendezvous/membership/verdict.hpp"

namespace ddprun::launcher {
namespace {

using proto::EvidenceKind;
using proto::Finished;

// One screen: --report=FILE has everything.
constexpr std::size_t kLastLinesShown = 20;
constexpr std::size_t kLogPathBytesShown = 4096;  // a path that is cut leads nowhere

/// When it failed, as the report's line of it has it: one that was stopped had failed before.
std::chrono::nanoseconds shown_time(const proto::WorkerFailure& failure) {
  return failure.stopped_by_us ? failure.evidence.at : failure.ended_at;
}

/// Whether the lines of the others have earlier times than the culprit's.
bool others_ended_sooner(const proto::Verdict& verdict) {
  const auto ended_sooner = [&](const proto::FailedWorker& other) {
    return shown_time(other.failure) < verdict.culprit.failure.ended_at;
  };
  return std::any_of(verdict.victims.begin(), verdict.victims.end(), ended_sooner) ||
         std::any_of(verdict.alike.begin(), verdict.alike.end(), ended_sooner);
}

/// The time is worth a word where the culprit's end alone would contradict the order.
std::string when_it_began(const proto::Verdict& verdict) {
  return others_ended_sooner(verdict)
             ? fmt::format(", after {}", describe(verdict.culprit.failure.evidence.at))
             : "";
}

/// Why this one is the culprit.
std::string evidence_text(const proto::Verdict& verdict, bool wrote_nothing, bool has_peers) {
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  const proto::Evidence& evidence = culprit.evidence;
  const std::string said = on_screen(evidence.text, kTextBytesShown);
  std::string text;
  switch (evidence.kind) {
    case EvidenceKind::not_started:
      return "";
    case EvidenceKind::memory_kill:
      text = "the kernel killed it because memory was full";
      break;
    case EvidenceKind::fatal_signal:
      text = signal_name(culprit.exit.value) + ": the program crashed";
      if (!said.empty()) text += ": " + said;
      if (said.empty() && wrote_nothing) text += " and wrote nothing to stderr";
      break;
    case EvidenceKind::hang:
      if (evidence.all_silent) return fmt::format("ddprun: evidence: hang: {}\n", said);
      return fmt::format("ddprun: evidence: hang: rank {}: {}\n", verdict.culprit.rank, said);
    case EvidenceKind::error_file:
      text = fmt::format("its error file{}: {}", when_it_began(verdict), said);
      break;
    case EvidenceKind::exception_line:
      text = fmt::format("its {}{}: {}", evidence.in_output ? "output" : "stderr",
                         when_it_began(verdict), said.empty() ? "a traceback" : said);
      break;
    case EvidenceKind::own_exit:
      if (verdict.victims.empty()) return "";
      text = verdict.close_call             ? "it ended first, or at the same time"
             : others_ended_sooner(verdict) ? "the others only lost a peer"
                                            : "it ended first";
      break;
    case EvidenceKind::late_exit:
      text =
          "it failed while the others were being stopped, and its output does not mention a lost "
          "peer";
      break;
  }
  if (!verdict.ended.empty()) {
    text += " (it lost its connection to a worker that had ended, or waited for that worker)";
  } else if (evidence.timed_out && !verdict.suspects.empty()) {
    text += " (it timed out waiting for another worker)";
  } else if (!evidence.victim_phrase.empty() && has_peers) {
    text += " (looks like a victim's error, but no other worker is a better candidate)";
  }
  return fmt::format("ddprun: evidence: {}\n", text);
}

/// Which of several nodes failed first may be more than their clocks can tell.
std::string close_call_text(const proto::Verdict& verdict) {
  if (!verdict.close_call) return "";
  const proto::CloseCall& close = *verdict.close_call;
  const std::string others = close.more == 0
                                 ? fmt::format("rank {}", close.rank)
                                 : fmt::format("rank {} and {} more", close.rank, close.more);
  const auto tenths = (close.within.count() + 99'999) / 100'000;
  return fmt::format(
      "ddprun: order: {2} failed within {0}.{1} ms, closer than the clocks can tell; the {3} "
      "decided\n",
      tenths / 10, tenths % 10, others, close.by_kind ? "stronger evidence" : "lower rank");
}

/// Those that failed as the culprit did, by themselves.
std::string alike_text(const agent::AgentResult& result, const proto::Verdict& verdict) {
  if (verdict.alike.empty()) return "";
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  const bool words =
      !culprit.error.empty() || !culprit.evidence.text.empty() || !culprit.last_lines.empty();
  std::string how = "failed the same way";
  // Nothing is known of workers without words but how they ended.
  if (!words) how = (culprit.exit.by_signal ? "were " : "") + describe(culprit.exit);
  const auto count = verdict.alike.size() + 1;
  if (static_cast<int>(count) == result.last_round.world_size) {
    const std::string all = count == 2 ? "both" : fmt::format("all {}", count);
    return fmt::format("ddprun: {} workers {}; first: rank {}\n", all, how, verdict.culprit.rank);
  }
  std::vector<int> list{verdict.culprit.rank};
  for (const proto::FailedWorker& worker : verdict.alike) list.push_back(worker.rank);
  std::sort(list.begin(), list.end());
  return fmt::format("ddprun: {} of {} workers {} ({}); first: rank {}\n", count,
                     result.last_round.world_size, how, ranks_text(list), verdict.culprit.rank);
}

/// What went wrong stands at the end of them. PyTorch begins each with the rank, which is named
/// above.
std::string last_lines_text(int rank, const std::vector<std::string>& lines) {
  const std::string own = fmt::format("[rank{}]", rank);
  const std::size_t first = lines.size() - std::min(lines.size(), kLastLinesShown);
  std::string text = "ddprun: its last lines:\n";
  if (first > 0) text += fmt::format("    ... {} lines before, which --report=FILE has\n", first);
  for (std::size_t i = first; i < lines.size(); ++i)
    text += "    " + on_screen(agent::without_own_rank(own, lines[i]), kTextBytesShown) + "\n";
  return text;
}

std::string culprit_text(const agent::AgentResult& result, const proto::Verdict& verdict) {
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  std::string text = suspects_headline(verdict);
  text += fmt::format(
      "ddprun: {}: {}, {}\n", text.empty() ? "culprit" : "failed first",
      worker_text(verdict.culprit.rank, verdict.culprit.node, culprit.local_rank, culprit.pid),
      describe(culprit));
  const bool wrote_nothing =
      culprit.last_lines.empty() && result.culprit.output_seen && culprit.error.empty();
  text += evidence_text(verdict, wrote_nothing, result.last_round.world_size > 1) +
          close_call_text(verdict) + usage_text(culprit) + alike_text(result, verdict);
  for (const std::string& hint : hints(result, verdict))
    text += fmt::format("ddprun: hint: {}\n", hint);
  if (!culprit.last_lines.empty() && !result.culprit.last_lines_seen)
    text += last_lines_text(verdict.culprit.rank, culprit.last_lines);
  text += output_above_text(result, culprit);
  if (!result.culprit.log.empty()) {
    const std::string& node = verdict.culprit.node;
    text += fmt::format("ddprun: its log{}: {}\n", node.empty() ? "" : " on " + node,
                        on_screen(result.culprit.log, kLogPathBytesShown));
  }
  // The evidence of a crash says it already.
  if (wrote_nothing && culprit.evidence.kind != EvidenceKind::fatal_signal)
    text += "ddprun: it wrote nothing to stderr\n";
  return text + stacks_text("", culprit.stacks) + suspects_text(verdict);
}

// The others: those that failed because of it, those that we stopped.
std::string others_text(const agent::AgentResult& result, const proto::Verdict& verdict) {
  std::string text;
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  std::vector<int> failed{verdict.culprit.rank};  // and those that are named elsewhere
  for (const proto::FailedWorker& worker : verdict.alike) failed.push_back(worker.rank);
  for (const proto::FailedWorker& victim : verdict.victims) {
    failed.push_back(victim.rank);
    const std::string& phrase = victim.failure.evidence.victim_phrase;
    if (victim.failure.stopped_by_us && !phrase.empty()) {
      text += fmt::format("ddprun: victim: rank {}: {}, after {}; then stopped\n", victim.rank,
                          phrase, describe(victim.failure.evidence.at));
      continue;
    }
    // One that reports no lost peer and failed no later than the culprit is no victim of it.
    const bool sooner = phrase.empty() && shown_time(victim.failure) < shown_time(culprit);
    text += fmt::format("ddprun: {}: rank {}, {}{}\n", sooner ? "failed, too" : "victim",
                        victim.rank, describe(victim.failure), phrase.empty() ? "" : ": " + phrase);
  }
  for (const proto::Suspect& suspect : verdict.suspects) failed.push_back(suspect.rank);
  std::vector<int> stopped;
  for (std::size_t i = 0; i < result.last_round.workers.size(); ++i) {
    const int rank = result.last_round.first_rank + static_cast<int>(i);
    const bool known = std::find(failed.begin(), failed.end(), rank) != failed.end();
    if (!known && result.last_round.workers[i].stopped_by_us) stopped.push_back(rank);
  }
  if (stopped.empty()) return text;
  return text + fmt::format("ddprun: stopped because of it{}: {}\n",
                            result.last_round.nodes > 1 ? " on this node" : "",
                            ranks_text(stopped));
}

/// Whether another try could have helped: what the restart policy refuses in any case is no news.
bool may_be_restarted(const proto::WorkerFailure& culprit) {
  if (!culprit.error.empty()) return false;
  if (culprit.exit.by_signal) return true;
  const int code = culprit.exit.value;
  return code != kExitUsage && code != kExitNotExecutable && code != kExitNotFound &&
         code != rdzv::kExitNeverRestart;
}

/// Why the job ends here; empty: that needs no word.
std::string why_not_restarted(const proto::Finished& finished) {
  if (finished.max_restarts == 0) {
    return may_be_restarted(finished.verdict->culprit.failure) ? "not restarted: --max-restarts=0"
                                                               : "";
  }
  const std::string used =
      fmt::format("{} of {} restarts used", finished.restart_count, finished.max_restarts);
  if (finished.no_restart.empty() || finished.no_restart == used) return used;
  return fmt::format("not restarted: {}; {}", finished.no_restart, used);
}

/// A program that fails in the same way in each round is hardly helped by another one. Kills from
/// outside are alike, too, and say nothing about it.
std::string same_error_text(const agent::AgentResult& result) {
  const auto& rounds = result.rounds;
  if (rounds.size() < 2 || result.rounds_left_out > 0) return "";
  const auto& last = rounds.back().culprit;
  if (!last || (last->failure.exit.by_signal && last->failure.evidence.text.empty())) return "";
  const bool all_alike =
      std::all_of(rounds.begin(), rounds.end(), [&](const agent::RoundSummary& round) {
        return round.culprit && rdzv::failed_alike(last->failure, round.culprit->failure);
      });
  if (!all_alike) return "";
  const std::string all = rounds.size() == 2 ? "both" : fmt::format("all {}", rounds.size());
  return fmt::format("ddprun: the same error in {} rounds: a restart does not help\n", all);
}

std::string closing_line(const proto::Finished& finished, int code) {
  const std::string why = why_not_restarted(finished);
  return fmt::format("ddprun: exit code {}{}\n", code, why.empty() ? "" : " (" + why + ")");
}

/// What programs print about a wrong command line: a usage and an error.
constexpr std::size_t kUsageLinesMost = 4;

/// A program that does not know its arguments has said so itself, mostly on every rank: one line
/// is enough. Empty: this end needs the whole report.
std::string wrong_usage_text(const agent::AgentResult& result, int code) {
  const proto::Verdict& verdict = *result.finished.verdict;
  const proto::WorkerFailure& culprit = verdict.culprit.failure;
  const bool is_plain = culprit.exit == ExitStatus{false, kExitUsage, false} &&
                        code == kExitUsage && culprit.error.empty() && !culprit.stopped_by_us &&
                        culprit.evidence.kind == EvidenceKind::own_exit;
  const bool is_alone = verdict.victims.empty() && verdict.suspects.empty() &&
                        verdict.ended.empty() && result.last_round.nodes == 1;
  if (!is_plain || !is_alone || culprit.last_lines.size() > kUsageLinesMost ||
      !hints(result, verdict).empty())
    return "";
  std::string text = fmt::format("ddprun: rank {} {}, mostly wrong arguments or input",
                                 verdict.culprit.rank, describe(culprit));
  if (!culprit.last_lines.empty() && !result.culprit.last_lines_seen)
    text += ": " + on_screen(culprit.last_lines.back(), kTextBytesShown);
  const std::string why = why_not_restarted(result.finished);
  return text + (why.empty() ? "" : " (" + why + ")") + "\n";
}

/// Where a node is the culprit, and no worker.
std::string lost_node_text(const proto::Finished& finished, int code) {
  const proto::LostNode& lost = *finished.lost_node;
  std::string text = fmt::format("ddprun: culprit: {}, lost: {}\n", name_of(lost), sign_of(lost));
  if (lost.more > 0) text += fmt::format("ddprun: {} lost, too\n", counted(lost.more, "more node"));
  return text + fmt::format("ddprun: exit code {} ({})\n", code,
                            finished.no_restart.empty() ? finished.reason
                                                        : "not restarted: " + finished.no_restart);
}

/// How many workers did not just die of the signal, in a job that was asked to end.
std::string exited_by_themselves_text(const agent::AgentResult& result) {
  const int own = exited_by_themselves(result);
  if (own == 0) return "";
  return fmt::format("; workers{} that exited by themselves: {} of {}",
                     result.last_round.nodes > 1 ? " of this node" : "", own,
                     result.last_round.workers.size());
}

}  // namespace

int exited_by_themselves(const agent::AgentResult& result) {
  const proto::Finished& finished = result.finished;
  if (finished.outcome != Finished::Outcome::cancelled) return 0;
  const auto exited_by_itself = [&](const agent::WorkerRecord& worker) {
    if (!worker.exit || worker.exit->by_signal || !worker.stopped_by_us) return false;
    const int code = worker.exit->value;
    return code == kExitSuccess || code == kExitSignalBase + finished.signal ||
           code == kExitSignalBase + SIGTERM;  // which other nodes' workers get
  };
  return static_cast<int>(std::count_if(result.last_round.workers.begin(),
                                        result.last_round.workers.end(), exited_by_itself));
}

int exit_code(const agent::AgentResult& result, ExitCodeRule rule) {
  const proto::Finished& finished = result.finished;
  if (!result.leftovers.empty() || finished.has_leftovers) return kExitLeftovers;
  if (finished.outcome == Finished::Outcome::cancelled) return kExitSignalBase + finished.signal;
  if (finished.outcome == Finished::Outcome::succeeded) return kExitSuccess;
  if (!finished.verdict) return finished.exit_code.value_or(kExitNoRound);
  if (rule == ExitCodeRule::one) return 1;
  return finished.exit_code.value_or(rdzv::exit_code_of(*finished.verdict));
}

namespace {

/// Names and reasons come from other nodes and the rendezvous: none of them begins a line.
void keep_on_their_lines(proto::Finished& finished) {
  const auto keep = [](std::string& text) { text = printable(text); };
  keep(finished.reason);
  keep(finished.no_restart);
  keep(finished.report_at);
  if (finished.lost_node) keep(finished.lost_node->node);
  for (proto::UnsoundNode& one : finished.unsound) keep(one.node);
  if (!finished.verdict) return;
  keep(finished.verdict->culprit.node);
  for (auto* others : {&finished.verdict->victims, &finished.verdict->alike})
    for (proto::FailedWorker& other : *others) keep(other.node);
  for (proto::Suspect& suspect : finished.verdict->suspects) keep(suspect.node);
  for (auto& one : finished.verdict->ended) keep(one.node);
  if (!finished.verdict->program) return;
  proto::ProgramFacts& program = *finished.verdict->program;
  for (std::string* text : {&program.python, &program.other_environment, &program.program})
    keep(*text);
  std::for_each(program.arguments.begin(), program.arguments.end(), keep);
}

std::string report_text(const agent::AgentResult& result, int code) {
  const proto::Finished& finished = result.finished;
  std::string text;
  for (const std::string& process : result.leftovers)
    text += fmt::format("ddprun: could not be killed: {}\n", on_screen(process, kTextBytesShown));
  if (result.output.dropped_bytes > 0) {
    text += fmt::format(
        "ddprun: dropped {} bytes of the workers' output: {}\n", result.output.dropped_bytes,
        result.output.refusal == 0 ? "a reader or a disk was too slow (see --log-policy)"
                                   : fmt::format("stdout or stderr cannot be written: {}",
                                                 std::strerror(result.output.refusal)));
  }
  const bool ends_with_reason =
      finished.outcome == Finished::Outcome::failed && !finished.verdict && !finished.lost_node;
  text += unsound_text(finished.unsound, ends_with_reason ? finished.reason : "");
  switch (finished.outcome) {
    case Finished::Outcome::succeeded:
      return text + success_line(result);
    case Finished::Outcome::cancelled:
      return text +
             fmt::format("ddprun: {}{}\n", finished.reason, exited_by_themselves_text(result));
    case Finished::Outcome::failed:
      break;
  }
  if (finished.lost_node) return text + lost_node_text(finished, code);
  if (!finished.verdict) return text + fmt::format("ddprun: {}\n", finished.reason);
  if (!finished.report_at.empty() && !result.culprit.is_here) {
    return text +
           fmt::format("ddprun: the job failed: {}; {} reports it in full\n",
                       describe(*finished.verdict), finished.report_at) +
           closing_line(finished, code);
  }
  if (std::string usage = wrong_usage_text(result, code); !usage.empty()) return text + usage;
  return text + culprit_text(result, *finished.verdict) + others_text(result, *finished.verdict) +
         same_error_text(result) + closing_line(finished, code);
}

}  // namespace

std::string report(const agent::AgentResult& result, int code) {
  agent::AgentResult shown = result;
  keep_on_their_lines(shown.finished);
  return report_text(shown, code);
}

}  // namespace ddprun::launcher
