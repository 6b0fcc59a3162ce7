#include "rendezvous/membership/restart_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/describe.hpp"

namespace ddprun::rdzv {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

/// Why a worker with this exit code fails again whenever it is started; empty: it may not.
std::string why_never(int code, const std::vector<int>& asked_for) {
  switch (code) {
    case kExitUsage:
      return "exit code 2 is a wrong command line, which stays wrong";
    case kExitNotExecutable:
      return "exit code 126 is a program that cannot be executed";
    case kExitNotFound:
      return "exit code 127 is a program that was not found";
    case kExitNeverRestart:
      return fmt::format("exit code {} asks for no restart", kExitNeverRestart);
    default:
      break;
  }
  if (std::find(asked_for.begin(), asked_for.end(), code) == asked_for.end()) return "";
  return fmt::format("exit code {} is in --no-restart-on", code);
}

/// A number from 0 to 1 that looks random and is the same for the same restart: jitter that a test
/// can expect, and that differs between the restarts of a job.
double spread(std::uint64_t seed) {
  seed = (seed + 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
  seed ^= seed >> 31U;
  return static_cast<double>(seed >> 11U) / static_cast<double>(1ULL << 53U);
}

std::chrono::nanoseconds lived_after(const proto::RestartSettings& settings) {
  return settings.minimum_uptime.count() > 0 ? settings.minimum_uptime
                                             : std::chrono::nanoseconds(kLived);
}

/// A kill from outside says nothing about the program, which may have been killed before it had
/// regained what it had.
bool killed_from_outside(const proto::WorkerFailure& culprit) {
  return culprit.exit.by_signal && culprit.evidence.kind == proto::EvidenceKind::own_exit;
}

}  // namespace

int RestartPolicy::used(Clock::time_point now) const {
  if (settings_.window.count() == 0) return restart_count();
  return static_cast<int>(
      std::count_if(history_.restarts.begin(), history_.restarts.end(),
                    [&](Clock::time_point at) { return now - at < settings_.window; }));
}

bool RestartPolicy::budget_left(Clock::time_point now) const {
  return used(now) < settings_.max_restarts;
}

std::string RestartPolicy::hopeless(const proto::WorkerFailure& culprit) const {
  if (!culprit.error.empty()) return "a program that cannot be started is not tried again";
  if (culprit.exit.by_signal) return "";
  return why_never(culprit.exit.value, settings_.no_restart_codes);
}

/// Nothing before the first of a row, then the back-off doubles; a quarter of it is jitter.
std::chrono::nanoseconds RestartPolicy::next_delay() const {
  if (history_.in_a_row == 0 || settings_.back_off.count() == 0) return std::chrono::nanoseconds(0);
  double delay = static_cast<double>(settings_.back_off.count());
  const auto most = static_cast<double>(settings_.back_off_max.count());
  for (int i = 1; i < history_.in_a_row && delay < most; ++i) delay *= 2;
  delay =
      std::min(delay, most) * (0.75 + 0.25 * spread(static_cast<std::uint64_t>(restart_count())));
  return std::chrono::nanoseconds(static_cast<std::int64_t>(delay));
}

void RestartPolicy::count_round(const proto::WorkerFailure& culprit,
                                std::optional<std::uint64_t> furthest_step) {
  const bool was_short = culprit.ran_for < lived_after(settings_);
  history_.short_rounds = was_short ? history_.short_rounds + 1 : 0;
  // A round that goes on from a checkpoint repeats steps: only what is new is progress.
  const bool further =
      furthest_step && (!history_.furthest_step || *furthest_step > *history_.furthest_step);
  if (!was_short || further) history_.in_a_row = 0;

  if (!furthest_step) {
    history_.stuck_rounds = 0;
    return;
  }
  if (further) history_.furthest_step = furthest_step;
  if (further) history_.stuck_rounds = 0;
  if (!killed_from_outside(culprit)) ++history_.stuck_rounds;
}

std::string RestartPolicy::crash_loop() const {
  if (settings_.minimum_uptime.count() > 0 &&
      history_.short_rounds >= settings_.crash_loop_rounds) {
    return fmt::format("crash loop: {} rounds in a row ended within {}", history_.short_rounds,
                       describe(settings_.minimum_uptime));
  }
  if (history_.stuck_rounds < settings_.crash_loop_rounds) return "";
  return fmt::format("crash loop: no progress in {} rounds: none got beyond step {}",
                     history_.stuck_rounds, history_.furthest_step.value_or(0));
}

RestartDecision RestartPolicy::decide(const proto::WorkerFailure& culprit,
                                      std::optional<std::uint64_t> furthest_step,
                                      Clock::time_point now) {
  RestartDecision decision;
  count_round(culprit, furthest_step);
  if (settings_.max_restarts == 0) return decision;
  decision.reason = hopeless(culprit);
  if (decision.reason.empty()) decision.reason = crash_loop();
  if (decision.reason.empty() && !budget_left(now)) {
    decision.reason = settings_.window.count() == 0
                          ? fmt::format("{} of {} restarts used", used(now), settings_.max_restarts)
                          : fmt::format("{} of {} restarts used within {}", used(now),
                                        settings_.max_restarts, describe(settings_.window));
  }
  if (!decision.reason.empty()) return decision;
  decision.restart = true;
  decision.delay = next_delay();
  ++history_.restart_count;
  if (settings_.window.count() > 0) {
    // Only those within the window will ever be asked for: a job may live, and restart, for months.
    std::erase_if(history_.restarts,
                  [&](Clock::time_point at) { return now - at >= settings_.window; });
    history_.restarts.push_back(now);
  }
  ++history_.in_a_row;
  return decision;
}

std::string explain(const proto::RestartSettings& settings) {
  std::string text;
  const auto line = [&text](std::string_view cause, const std::string& what) {
    text += fmt::format("{:<36} {}\n", cause, what);
  };
  const bool any = settings.max_restarts > 0;
  const std::string ends = "ends the job";
  std::string again = ends + ": no restarts are allowed (--max-restarts)";
  if (any) {
    again = fmt::format("restarts the group, at most {} times{}", settings.max_restarts,
                        settings.window.count() > 0 ? " within any " + describe(settings.window)
                                                    : " in the whole job");
  }
  line("a worker is killed by a signal", again);
  line("a worker exits with an error code", again);
  for (const int code : {kExitUsage, kExitNotExecutable, kExitNotFound, kExitNeverRestart})
    line(fmt::format("but with code {}", code), ends + ": " + why_never(code, {}));
  for (const int code : settings.no_restart_codes)
    line(fmt::format("but with code {}", code),
         ends + ": " + why_never(code, settings.no_restart_codes));
  line("a worker hangs (--progress-timeout)", again);
  line("no output (--on-silence=restart)", again);
  line("PROGRAM cannot be started", ends);
  line("all workers exit with code 0", ends + " as a success");
  line("a stop signal comes", "stops the workers within the grace period and ends the job");
  line("SIGTERM to one of several nodes",
       "that node leaves; the others start again, if they are enough (--nnodes=MIN:MAX)");
  line("one of several nodes is lost", "the others start again in the same way");
  if (!any) return text;
  line("before the first restart", "no wait");
  line("before each further restart",
       settings.back_off.count() == 0
           ? "no wait (--restart-delay)"
           : fmt::format("{}, doubled each time up to {}, less up to a quarter",
                         describe(settings.back_off), describe(settings.back_off_max)));
  line("the wait is reset by a round",
       fmt::format("that lasted {} or reached a new step", describe(lived_after(settings))));
  line(fmt::format("{} short rounds in a row", settings.crash_loop_rounds),
       settings.minimum_uptime.count() == 0 ? "nothing: no round is too short (--min-uptime)"
                                            : fmt::format("ends the job: each lasted less than {}",
                                                          describe(settings.minimum_uptime)));
  line(fmt::format("{} rounds in a row, no new step", settings.crash_loop_rounds),
       "ends the job, if the workers report their step (DDPRUN_PROGRESS_FILE)");
  return text;
}

}  // namespace ddprun::rdzv
