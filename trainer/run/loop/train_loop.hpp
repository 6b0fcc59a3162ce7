// The training loop of one rank: steps, metrics, evaluation, checkpoints. Every decision that all
// ranks must share follows from the step number or from values that all ranks hold.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trainer/checkpoint/checkpoint_keeper.hpp"
#include "trainer/comm/communicator.hpp"
#include "trainer/data/load.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/loop/elastic.hpp"
#include "trainer/run/loop/epoch_samples.hpp"
#include "trainer/run/loop/pace.hpp"
#include "trainer/run/loop/progress.hpp"
#include "trainer/run/loop/rank_weights.hpp"
#include "trainer/run/loop/resume_point.hpp"
#include "trainer/run/loop/save_requests.hpp"
#include "trainer/run/loop/training_step.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/report/report.hpp"

namespace ddprun::trainer {

/// Everything the loop works with; all of it outlives the loop.
struct TrainParts {
  const Options& options;
  const WorkerEnvironment& environment;
  const TrainPlan& plan;
  const TrainAndTest& sets;
  const Preparation& preparation;
  const Graph& graph;
  Device& device;
  Lanes& lanes;
  Communicator& communicator;
  Report& report;
  CheckpointKeeper* keeper = nullptr;  ///< rank 0's; null on others
  TrainingState& state;                ///< where to start; kept up to date
  Learner& learner;
  const std::atomic<int>* asked = nullptr;  ///< the signal that asks it to end, or 0; null: none
  const StoredSets* stored = nullptr;       ///< sets that stay on the device; null: none
  const Elastic* elastic = nullptr;         ///< to go on in another round; null: cannot
  /// The state is that of a rank that was interrupted, maybe before it did what is due after a
  /// step.
  bool is_handed_over = false;
};

class TrainLoop {
 public:
  explicit TrainLoop(TrainParts parts);

  /// Trains until plan.last_step, then evaluates and reports. Gives the exit code: kExitPeerLost,
  /// after one line that names rank and bucket, when another rank is gone or does not answer. A
  /// loss, weights or moments of inf or nan end the run: rank 0 reports where and gives
  /// kExitFailure, the others kExitPeerLost once it is gone. If not all ranks have such weights,
  /// the first rank that has them reports it. Where a signal asks one rank to end, all end after
  /// the same step or within an evaluation, once rank 0 has written that state: kExitSignalBase and
  /// the signal, also where another rank is lost meanwhile. Where others are to go on without it,
  /// it ends alone.
  ///
  /// None: this worker can go on in the next round, for another rank is gone or the world is to
  /// change. State and learner are then as they were after state.step steps, and what the ranks
  /// have counted until then is in the state. Ranks may have come to different steps.
  std::optional<int> run();

 private:
  /// What each rank tells the others from time to time.
  struct Shared {
    StepCounts counts;
    std::int64_t steps_to_next = 1;  ///< rank 0's counts: when to meet again
    std::int64_t interval_from = 0;  ///< rank 0's counts: OpenInterval::first_step
    std::uint64_t stuck = 0;         ///< StepState::stuck
    /// Before an evaluation; else only whether rank 0 has found an inf or nan for a checkpoint.
    RankWeights weights;
    PeakMemory memory;           ///< after an evaluation
    int stop_signal = 0;         ///< that asks this rank to end; 0: none
    SaveWord save;               ///< of share()
    bool is_elastic = false;     ///< this rank can take part in another round
    bool world_changes = false;  ///< it knows that all are to leave for another round
  };
  /// How a run has to end: as all ranks know it.
  struct Ending {
    std::optional<int> exit_code = 0;  ///< none: the run goes on in the next round
    int stop_signal = 0;               ///< that asks a rank to end; 0: none
    bool world_changes = false;
  };
  using Time = std::chrono::steady_clock::time_point;

  bool step();
  const StepState* make_overflow();
  bool share();
  bool end_epoch();
  bool agree_on_weights();
  bool evaluate(Counters& total);
  void report_interval(Time now, bool is_last);
  void report_evaluation(double share, Time began);
  [[nodiscard]] double seconds_left(double of_evaluation_done) const;
  void lower_rate();
  EpochSummary summarize(const Counters& test) const;
  bool note_if_best(const EpochSummary& summary);
  void warn_of_step();
  /// Until deadline(), or longer.
  bool exchange(Shared mine, Clock::duration longer = {});
  [[nodiscard]] bool is_epoch_trained() const;
  [[nodiscard]] int asked() const;
  bool is_over();
  void end_as_asked();
  bool lost(const CommResult& result, bool may_go_on = true);
  bool is_sound(const Counters& counters);
  bool end_broken(const std::string& what, const std::string& advice, int reporter = 0);
  void offer_checkpoint(bool best, Time now);
  std::string newest_checkpoint();
  [[nodiscard]] std::string where_not_finite(const Counters& counters) const;
  [[nodiscard]] std::string advice(const char* look_at, bool was_updated) const;
  [[nodiscard]] bool was_updated() const { return parts_.state.step_state.updates > 0; }
  std::optional<int> finish();
  [[nodiscard]] Time deadline() const { return Clock::now() + parts_.options.comm.timeout; }

  TrainParts parts_;
  Score score_;
  Progress progress_;
  SaveRequests saves_;
  std::unique_ptr<TrainingStep> step_;
  EpochSamples samples_;
  SampleReader test_samples_;
  DeviceMemory overflowing_;  // a StepState with an infinite loss scale, for tests
  double rate_share_;         // of --schedule=plateau

  Shared mine_;                 // since the last share()
  std::vector<Shared> shared_;  // of all ranks
  ResumePoint resume_point_;
  std::int64_t share_at_ = 0;    // step after which the ranks meet again
  std::int64_t first_step_ = 0;  // after so many it began
  std::string broken_;           // what rank 0 has found in the weights
  Ending ending_;
  Pace pace_;
  Time began_;
  double seconds_before_;
};

/// --eval: the held-out set through a model that is not trained, all ranks together; rank 0
/// reports. The figures are the same for any number of ranks. Gives the exit code: kExitPeerLost
/// after one line where another rank is gone, kExitFailure where a loss is not finite.
int evaluate_held_out(const TrainParts& parts);

}  // namespace ddprun::trainer
