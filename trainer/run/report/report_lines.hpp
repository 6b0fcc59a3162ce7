// What is reported of a run: each event once, as text for people, as a JSON line for programs and
// as points of curves. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"
#include "trainer/run/report/data_parallel_figures.hpp"
#include "trainer/run/report/score.hpp"

namespace ddprun::trainer {

/// Which workers these are: in every JSON line.
struct Place {
  std::int64_t world_size = 1;
  std::int64_t round = 0;
};

/// What happened since the last one.
struct Interval {
  std::int64_t step = 0;   ///< steps done
  std::int64_t steps = 0;  ///< of this interval
  std::int64_t last_step = 0;
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  double loss = 0;   ///< mean over the samples of the interval
  double score = 0;  ///< on training samples
  double learning_rate = 0;
  std::optional<double> loss_scale;          ///< only with fp16
  std::optional<double> gradient_norm = {};  ///< of the last step; only where gradients are clipped
  std::uint64_t skipped = 0;                 ///< steps skipped by overflow, in all
  double samples_per_second = 0;
  /// The share of the time that was spent waiting for sums that backward did not hide (slowest
  /// rank). None: the device cannot tell.
  std::optional<double> exposed_share;
  double seconds_left = 0;
  bool is_last = false;  ///< training ends here
};

/// An evaluation under way.
struct EvaluationProgress {
  std::int64_t step = 0;  ///< steps done
  std::int64_t last_step = 0;
  std::int64_t epoch = 0;
  std::int64_t epochs = 0;
  double share = 0;         ///< of the held-out samples, done
  double seconds_left = 0;  ///< of the whole run
};

/// The most that one worker has taken, in bytes. Trivially copyable: ranks exchange it.
struct PeakMemory {
  /// In its device's memory: weights, gradients, moments, activations, with gradients that are in
  /// memory shared with other workers.
  std::uint64_t device = 0;
  std::uint64_t process = 0;  ///< resident, of the host; 0: not known
};

/// How a run ended.
struct Outcome {
  std::vector<EpochSummary> epochs;
  std::string weights_hash;
  std::int64_t shards = 1;
  std::int64_t batch = 1;
  std::int64_t threads_per_shard = 1;
  std::string compute;  ///< compute_text()
  std::int64_t steps = 0;
  std::uint64_t skipped = 0;
  std::int64_t restarts = 0;
  double seconds = 0;                   ///< over all rounds
  std::string checkpoint;               ///< path of the last one; empty: none
  std::optional<Evaluation> best = {};  ///< best_of() all, those before the last restart too
  std::vector<PeakMemory> memory = {};  ///< by rank; empty: nothing was done
  std::optional<DataParallelFigures> data_parallel = {};  ///< of --parallel=dp
};

/// How a run ended that was asked to.
struct StoppedRun {
  std::string signal;  ///< "SIGTERM"
  std::int64_t step = 0;
  std::string checkpoint;   ///< path of the newest one; empty: none
  bool is_saved = false;    ///< it is of this step
  bool is_off = false;      ///< --checkpoint-every=off
  bool is_named = false;    ///< by --out: the same command goes on there
  bool is_resumed = false;  ///< not --resume=never
};

/// Whether an epoch was trained to its end, or --max-steps came first.
enum class EpochEnd { complete, cut_off };

/// Where the run is then.
struct EpochEnding {
  EpochEnd end = EpochEnd::complete;
  std::int64_t epochs = 0;   ///< of the run
  std::int64_t step = 0;     ///< steps done, of the run
  double learning_rate = 0;  ///< of the epoch's last step
};

/// What --eval found.
struct EvaluationResult {
  std::string weights_file;
  std::string weights_hash;
  std::string data;                      ///< the set's name
  Counters counters;                     ///< over the whole held-out set
  std::vector<ClassCount> classes;       ///< of masks: outside, inside
  std::vector<std::string> class_names;  ///< empty: their numbers
  double seconds = 0;
};

/// One point of a curve.
struct Scalar {
  std::string tag;  ///< the curve; TensorBoard groups by what stands before a slash
  double value = 0;
};

/// What an event is reported as.
struct ReportLine {
  std::string text;  ///< one line or several, the last one without an end
  std::string json;
  std::vector<Scalar> scalars = {};  ///< "loss/train", "accuracy/train", "learning_rate" and so on
};

struct LineStyle {
  Score score = score_of(Target::label);
  Place place = {};
  std::size_t columns = 0;  ///< of the parts of a text those that fit into so many; 0: all
};

/// "epoch 1/5 step 120/470  loss 0.412  accuracy 87.1 %  45210 samples/s ...".
ReportLine line_of(const Interval& interval, const LineStyle& style);
/// "epoch 1/5  step 94/470  evaluating 40 %  1 m 05 s left".
ReportLine line_of(const EvaluationProgress& progress, const LineStyle& style);
ReportLine line_of(const EpochSummary& epoch, const EpochEnding& ending, const LineStyle& style);
/// The final table, with the line of the weights' hash. On a narrow terminal it has fewer columns
/// of numbers.
ReportLine line_of(const Outcome& outcome, const LineStyle& style);
/// A table of the classes.
ReportLine line_of(const EvaluationResult& result, const LineStyle& style);
/// "stopped by SIGTERM after step 120; checkpoint runs/first/step-00000120; the same command goes
/// on there".
ReportLine line_of(const StoppedRun& run, const LineStyle& style);

/// "1 m 05 s".
std::string duration_text(double seconds);

}  // namespace ddprun::trainer
