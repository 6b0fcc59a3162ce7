// Settings that are allowed, and that nobody can mean. Pure.
#pragma once

#include <string>
#include <vector>

#include "trainer/run/environment.hpp"
#include "trainer/run/options.hpp"
#include "trainer/run/plan.hpp"

namespace ddprun::trainer {

/// In place of a number of cores: a GPU computes, and its work comes from one thread.
inline constexpr int kNoCores = 0;

/// One line each, with what to change. `cores`: that this machine's workers share.
std::vector<std::string> advice_on(const Options& options, const WorkerEnvironment& environment,
                                   const TrainPlan& plan, int cores);

}  // namespace ddprun::trainer
