// --eval: the held-out set through a model that is not trained.
#pragma once

#include <string>
#include <vector>

#include "trainer/comm/communicator.hpp"
#include "trainer/data/train_and_test.hpp"
#include "trainer/optim/learner.hpp"
#include "trainer/run/lanes.hpp"
#include "trainer/run/options.hpp"
#include "trainer/run/plan.hpp"
#include "trainer/run/progress.hpp"
#include "trainer/run/report.hpp"

namespace ddprun::trainer {

/// Everything it works with; all of it outlives the evaluation.
struct EvaluationParts {
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
  const Learner& learner;
};

/// All ranks together; rank 0 reports. The figures are the same for any number of them. Gives the
/// exit code: kExitPeerLost after one line where another rank is gone, kExitFailure where a loss is
/// not finite.
int evaluate_held_out(const EvaluationParts& parts);

}  // namespace ddprun::trainer
