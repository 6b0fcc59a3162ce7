// Reports what a run does: a progress line on a terminal, plain lines elsewhere, JSON lines in
// metrics.jsonl, warnings on stderr. Only rank 0 reports anything but errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run/report/event_file.hpp"
#include "trainer/run/report/report_lines.hpp"

namespace ddprun::trainer {

/// Warns once where stdout cannot be written, except where its reader has gone.
/// warning() may be called by any thread, the others by the training loop's.
class Report {
 public:
  struct Settings {
    int rank = 0;
    bool json = false;
    bool quiet = false;
    Place place;
    Score score = score_of(Target::label);
    std::filesystem::path metrics;      ///< empty: no file
    std::filesystem::path events = {};  ///< directory for TensorBoard's event file; empty: none
    std::int64_t log_every = 0;  ///< steps between JSON lines of intervals; 0: about a second
  };

  /// Appends to the metrics file from the first line on, and to an event file from the first point
  /// on; where one of them cannot be written, warns once and goes on without it.
  explicit Report(Settings settings);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// The run goes on after so many steps: of the event file.
  void starts_after(std::int64_t steps) { first_steps_ = steps; }
  /// One line about how the run starts.
  void note(const std::string& text);
  /// Called as often as the loop likes; decides itself what is worth showing now: the last one
  /// always has a JSON line. False: its steps belong to the next JSON line, too, as it was only
  /// shown as text, or has fewer steps than --log-every.
  bool interval(const Interval& interval, std::chrono::steady_clock::time_point now);
  /// Shows how far an evaluation is that began at `began`; a short one is not shown.
  void evaluation(const EvaluationProgress& progress, std::chrono::steady_clock::time_point began,
                  std::chrono::steady_clock::time_point now);
  void epoch(const EpochSummary& epoch, const EpochEnding& ending);
  /// How the run ended, which --quiet shows, too: an Outcome, EvaluationResult or StoppedRun.
  template <class Ending>
  void end(const Ending& ending) {
    write_end(line_of(ending, style()));
  }

  /// Whether interval() would do something after this step.
  [[nodiscard]] bool interval_due(std::int64_t step,
                                  std::chrono::steady_clock::time_point now) const;

  /// To stderr, from every rank, with the rank where there are several. One line: of names in the
  /// text, control characters are shown as in C.
  void warning(const std::string& text) {
    complain("warning: ", settings_.place.world_size > 1, text);
  }
  /// As warning(), but always with the rank: the launcher's report knows a failure's line by it.
  void error(const std::string& text) { complain("error: ", true, text); }

 private:
  void complain(std::string_view kind, bool with_rank, const std::string& text);
  void print(const std::string& text, bool progress);
  void write_end(const ReportLine& line);
  void record(const ReportLine& line, std::int64_t step, bool is_shown);
  [[nodiscard]] LineStyle style() const;
  void clear_progress();
  void write_metrics(const std::string& json);
  void warn_of_file(const std::string& what);
  void write_events(const std::vector<Scalar>& scalars, std::int64_t step);
  [[nodiscard]] std::chrono::steady_clock::duration text_every() const;
  [[nodiscard]] bool text_due(std::chrono::steady_clock::time_point now) const;
  [[nodiscard]] bool line_due(std::int64_t step, std::chrono::steady_clock::time_point now) const;

  Settings settings_;
  bool terminal_ = false;
  std::mutex mutex_;  // guards the streams and what follows
  bool progress_shown_ = false;
  bool output_failed_ = false;
  std::optional<AppendedFile> metrics_;  // from the first line on
  bool metrics_failed_ = false;
  std::optional<EventFile> events_;  // from the first point on
  std::int64_t first_steps_ = 0;     // done when this start began
  bool events_failed_ = false;
  std::chrono::steady_clock::time_point last_progress_{};
  std::chrono::steady_clock::time_point last_metrics_{};
};

/// Prints "train: ..." to stderr, with "error: " where a run has begun, as a launcher's report
/// looks for it. Gives the exit code.
int report_failure(const std::exception& error);

}  // namespace ddprun::trainer
