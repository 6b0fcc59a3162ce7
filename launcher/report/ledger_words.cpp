#include "launcher/report/ledger_words.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/describe.hpp"
#include "launcher/report/screen_text.hpp"

namespace ddprun::launcher {
namespace {

using agent::Spent;
using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kTold{1};  // what took less is not told

nanoseconds of(const agent::SpentTimes& times, Spent kind) {
  return times[static_cast<std::size_t>(kind)];
}

/// `1.2 s doing 120 steps again`
std::string loss_words(Spent kind, nanoseconds time, std::uint64_t steps_again) {
  const std::string length = describe(time);
  switch (kind) {
    case Spent::again:
      return fmt::format("{} doing {} step{} again", length, steps_again,
                         steps_again == 1 ? "" : "s");
    case Spent::waiting:
      return length + " waiting for nodes or a restart's delay";
    case Spent::hung:
      return length + " in a hang";
    default:
      return fmt::format("{} {}", length, name_of(kind));
  }
}

/// `2.1 s lost: 1.2 s doing 120 steps again, 0.9 s starting`, the most first.
std::string losses(const agent::LedgerEntries& ledger) {
  std::vector<std::pair<nanoseconds, Spent>> kinds;
  nanoseconds sum{0};
  for (std::size_t i = 0; i < agent::kSpentKinds; ++i) {
    sum += ledger.lost[i];
    if (ledger.lost[i] >= kTold) kinds.emplace_back(ledger.lost[i], static_cast<Spent>(i));
  }
  std::sort(kinds.rbegin(), kinds.rend());
  std::vector<std::string> words;
  for (const auto& [time, kind] : kinds)
    words.push_back(loss_words(kind, time, ledger.steps_again));
  std::string text = describe(sum) + " lost";
  return words.empty() ? text : fmt::format("{}: {}", text, fmt::join(words, ", "));
}

}  // namespace

std::string success_line(const agent::AgentResult& result) {
  if (result.finished.restart_count == 0) return "";
  const std::string begin = fmt::format("ddprun: done in {}, {}", describe(result.job_lasted),
                                        counted(result.finished.restart_count, "restart"));
  // A program that goes on from a checkpoint repeats less than all that was before the last round.
  if (!result.ledger.has_steps)
    return fmt::format("{}, at most {}{} lost\n", begin, describe(result.last_round.lost_at_most),
                       result.last_round.repeats_steps ? " and the interrupted steps" : "");
  const auto share = in_seconds(of(result.ledger.spent, Spent::training)) /
                     std::max(1e-9, in_seconds(result.job_lasted));
  return fmt::format("{}; {:.1f} % training, {}\n", begin, 100 * share, losses(result.ledger));
}

}  // namespace ddprun::launcher
