#include "trainer/run/report/report.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/printable.hpp"
#include "trainer/checkpoint/initial_weights.hpp"
#include "trainer/error.hpp"
#include "trainer/run/exit_codes.hpp"

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

LineStyle Report::style() const {
  return {.score = settings_.score, .place = settings_.place, .columns = line_columns()};
}

/// In the files, and as JSON on stdout where that is wanted.
void Report::record(const ReportLine& line, std::int64_t step, bool is_shown) {
  write_metrics(line.json);
  if (!line.scalars.empty()) write_events(line.scalars, step);
  if (settings_.json && is_shown) print(line.json, false);
}

bool Report::interval(const Interval& interval, steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return true;
  // Curves end where training does.
  const bool records = interval.is_last || line_due(interval.step, now);
  const bool shows = text_due(now);
  if (records || shows) {
    const ReportLine line = line_of(interval, style());
    if (records) {
      last_metrics_ = now;
      record(line, interval.step, !settings_.quiet);
    }
    if (shows) {
      last_progress_ = now;
      print(line.text, true);
    }
  }
  // Each has so many steps: the next one begins where one is full, in whichever start that is.
  return settings_.log_every == 0 || interval.step % settings_.log_every == 0;
}

void Report::evaluation(const EvaluationProgress& progress, steady_clock::time_point began,
                        steady_clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  const bool records = now - std::max(last_metrics_, began) >= kMetricsEvery;
  const bool shows =
      !settings_.json && !settings_.quiet && now - std::max(last_progress_, began) >= text_every();
  if (!records && !shows) return;  // it is asked after each batch
  const ReportLine line = line_of(progress, style());
  if (records) {
    last_metrics_ = now;
    record(line, progress.step, !settings_.quiet);
  }
  if (shows) {
    last_progress_ = now;
    print(line.text, true);
  }
}

void Report::epoch(const EpochSummary& epoch, const EpochEnding& ending) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  const ReportLine line = line_of(epoch, ending, style());
  record(line, ending.step, !settings_.quiet);
  if (!settings_.json && !settings_.quiet) print(line.text, false);
}

void Report::write_end(const ReportLine& line) {
  const std::lock_guard lock(mutex_);
  if (settings_.rank != 0) return;
  record(line, 0, true);
  if (!settings_.json) print(line.text, false);
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

void Report::write_events(const std::vector<Scalar>& scalars, std::int64_t step) {
  if (settings_.events.empty() || events_failed_) return;
  try {
    if (!events_) events_.emplace(settings_.events, first_steps_);
    events_->append(step, scalars);
  } catch (const std::system_error& error) {
    events_failed_ = true;
    warn_of_file(error.what());
  }
}

/// Tells of a file that is given up.
void Report::warn_of_file(const std::string& what) {
  const std::string line =
      fmt::format("train: warning: {}; going on without it\n", printable(what));
  clear_progress();
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int report_failure(const std::exception& error) {
  if (const auto* const mismatch = dynamic_cast<const WeightMismatch*>(&error))
    for (const std::string& one : mismatch->all())
      std::fprintf(stderr, "train:   %s\n", printable(one).c_str());
  const bool is_usage = dynamic_cast<const DataError*>(&error) != nullptr;
  std::fprintf(stderr, "train: %s%s\n", is_usage ? "" : "error: ", printable(error.what()).c_str());
  return is_usage ? kExitUsage : kExitFailure;
}

}  // namespace ddprun::trainer
