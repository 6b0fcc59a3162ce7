#include "trainer/run/report.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/printable.hpp"

namespace ddprun::trainer {
namespace {

using std::chrono::steady_clock;

constexpr auto kTerminalEvery = std::chrono::milliseconds(100);
constexpr auto kPlainEvery = std::chrono::seconds(5);
constexpr auto kMetricsEvery = std::chrono::seconds(1);

/// Columns for a line; 0: no terminal, any number.
std::size_t line_columns() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

Report::Report(Settings settings)
    : settings_(std::move(settings)),
      terminal_(::isatty(STDOUT_FILENO) == 1 && !settings_.json),
      last_progress_(steady_clock::now()),  // the first moments of a run say little
      last_metrics_(last_progress_) {}

Report::~Report() { clear_progress(); }

void Report::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0 || settings_.json || settings_.quiet) return;
  print(printable(text), false);
}

steady_clock::duration Report::text_every() const {
  return terminal_ ? steady_clock::duration(kTerminalEvery) : kPlainEvery;
}

bool Report::text_due(steady_clock::time_point now) const {
  return !settings_.quiet && !settings_.json && now - last_progress_ >= text_every();
}

bool Report::line_due(std::int64_t step, steady_clock::time_point now) const {
  return settings_.log_every > 0 ? step % settings_.log_every == 0
                                 : now - last_metrics_ >= kMetricsEvery;
}

bool Report::interval_due(std::int64_t step, steady_clock::time_point now) const {
  return line_due(step, now) || text_due(now);
}

bool Report::interval(const Interval& interval, steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return true;
  // Curves end where training does.
  const bool has_line = interval.is_last || line_due(interval.step, now);
  if (has_line) {
    last_metrics_ = now;
    const std::string json = progress_json(interval, settings_.score, settings_.place);
    write_metrics(json);
    write_events(interval.step, scalars_of(interval, settings_.score));
    if (settings_.json && !settings_.quiet) print(json, false);
  }
  if (text_due(now)) {
    last_progress_ = now;
    print(progress_text(interval, settings_.score, line_columns()), true);
  }
  // Of so many steps each: the next one begins where one is full, in whichever start that is.
  return settings_.log_every == 0 || interval.step % settings_.log_every == 0;
}

void Report::evaluation(const EvaluationProgress& progress, steady_clock::time_point began,
                        steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  if (now - std::max(last_metrics_, began) >= kMetricsEvery) {
    last_metrics_ = now;
    const std::string json = evaluation_json(progress, settings_.place);
    write_metrics(json);
    if (settings_.json && !settings_.quiet) print(json, false);
  }
  if (!settings_.json && !settings_.quiet &&
      now - std::max(last_progress_, began) >= text_every()) {
    last_progress_ = now;
    print(evaluation_text(progress, line_columns()), true);
  }
}

void Report::epoch(const EpochSummary& epoch, const EpochEnding& ending) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  const std::string json = epoch_json(epoch, ending, settings_.score, settings_.place);
  write_metrics(json);
  write_events(ending.step, scalars_of(epoch, ending, settings_.score));
  if (!settings_.quiet)
    print(settings_.json ? json : epoch_text(epoch, ending, settings_.score, line_columns()),
          false);
}

void Report::outcome(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  print_result(outcome_json(outcome, settings_.score, settings_.place),
               outcome_text(outcome, settings_.score, line_columns()));
}

void Report::evaluated(const EvaluationResult& result) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  print_result(evaluation_result_json(result, settings_.score, settings_.place),
               evaluation_result_text(result, settings_.score));
}

void Report::print_result(const std::string& json, std::string text) {
  write_metrics(json);
  if (settings_.json) text = json;
  if (text.ends_with('\n')) text.pop_back();
  print(text, false);
}

void Report::stopped(const StoppedRun& run) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  const std::string json = stopped_json(run, settings_.place);
  write_metrics(json);
  print(settings_.json ? json : printable(stopped_text(run)), false);
}

void Report::complain(std::string_view kind, bool with_rank, const std::string& text) {
  const std::lock_guard lock(mutex_);
  clear_progress();
  const std::string name = with_rank ? fmt::format("rank {}: ", settings_.rank) : "";
  // One write for the whole line, so that lines of several ranks do not mix.
  const std::string line = fmt::format("train: {}{}{}\n", kind, name, printable(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Report::clear_progress() {
  if (!progress_shown_) return;
  progress_shown_ = false;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
}

void Report::print(const std::string& text, bool progress) {
  clear_progress();
  if (progress && terminal_) {
    // A line that wraps could not be cleared.
    std::fputs(text.c_str(), stdout);
    progress_shown_ = true;
  } else {
    const std::string line = text + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  // A reader that has gone wants to hear nothing more.
  if (std::fflush(stdout) == 0 || errno == EPIPE || output_failed_) return;
  output_failed_ = true;
  const std::string line = fmt::format(
      "train: warning: cannot write to stdout: {}; training goes on\n", std::strerror(errno));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Report::write_metrics(const std::string& json) {
  if (settings_.metrics.empty() || metrics_failed_) return;
  try {
    std::string line = json + "\n";
    if (!metrics_) {
      // Else the first line of this start would be lost with that one.
      if (ends_within_line(settings_.metrics)) line.insert(0, "\n");
      metrics_.emplace(settings_.metrics);
    }
    metrics_->append(line);
  } catch (const std::system_error& error) {
    metrics_failed_ = true;
    warn_of_file(error.what());
  }
}

void Report::write_events(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (settings_.events.empty() || events_failed_) return;
  try {
    if (!events_) events_.emplace(settings_.events, first_steps_);
    events_->append(step, scalars);
  } catch (const std::system_error& error) {
    events_failed_ = true;
    warn_of_file(error.what());
  }
}

/// Of one that is given up.
void Report::warn_of_file(const std::string& what) {
  const std::string line =
      fmt::format("train: warning: {}; going on without it\n", printable(what));
  clear_progress();
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ddprun::trainer
