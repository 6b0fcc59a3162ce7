// One step of training, as the loop sees it: the gradients of V shards, their sum, the update. How
// that is spread over devices and ranks is --parallel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/cli/options.hpp"
#include "trainer/run/loop/compute_lane.hpp"
#include "trainer/run/loop/lanes.hpp"
#include "trainer/run/loop/stored_sets.hpp"
#include "trainer/run/plan/plan.hpp"
#include "trainer/run/report/report_lines.hpp"

namespace ddprun::trainer {

/// What a step works with; all of it outlives the step.
struct StepParts {
  const Options& options;
  const TrainPlan& plan;
  const Preparation& preparation;
  const Graph& graph;
  Device& device;
  Lanes& lanes;
  Communicator& communicator;
  Learner& learner;
  const StoredSets* stored = nullptr;  ///< sets that stay on the device; null: none
};

/// Called by one thread.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  // compute(), sum() and update() make a step.

  /// The gradients of this rank's shards, with the learner's weights. `samples` expects those of
  /// these shards.
  virtual void compute(SampleReader& samples, const StepInputs& inputs) = 0;
  /// Over all shards of all ranks. Where the result is not done, nothing may follow.
  virtual CommResult sum(Clock::time_point deadline) = 0;
  /// Updates the learner's weights: all ranks hold the same sums, so they skip, scale and update
  /// alike.
  virtual void update() = 0;
  /// Communication of the last step that no computing hid. None: the device cannot tell.
  [[nodiscard]] virtual std::optional<Clock::duration> exposed() const = 0;

  /// With the learner's weights: see ShardComputer::evaluate().
  virtual void evaluate(SampleReader& samples,
                        const std::function<bool(double share)>& on_progress) = 0;
  /// What the samples of both since the last call came to. Waits for the device.
  virtual Counters take_counters() = 0;

  /// What the user should know since the last call, a line each.
  virtual std::vector<std::string> take_warnings() { return {}; }
  /// The most bytes that devices beside the worker's own one held, together.
  [[nodiscard]] virtual std::uint64_t further_peak_bytes() const { return 0; }
  /// Adds its own figures to the final report.
  virtual void report_to(Outcome& /*outcome*/) const {}
};

/// The one that --parallel asks for.
std::unique_ptr<TrainingStep> make_training_step(const StepParts& parts);

}  // namespace ddprun::trainer
