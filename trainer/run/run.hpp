// One worker's whole run, from options and environment to the exit code.
#pragma once

#include "trainer/run/environment.hpp"
#include "trainer/run/gpus.hpp"
#include "trainer/run/options.hpp"

namespace ddprun::trainer {

/// Loads data, finds the checkpoint, meets the other ranks, trains. Gives the exit code
/// (exit_codes.hpp). Throws DataError for what cannot be used, before anything starts.
int run_worker(const Options& options, const WorkerEnvironment& environment, GpuSource& gpus);

}  // namespace ddprun::trainer
